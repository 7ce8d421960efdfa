"""Where `kglink link` writes: standard output, or a file that is whole or resumable.

What a cluster links is kept chunk by chunk, and written in order.
"""

from __future__ import annotations

import glob
import io
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kglink.errors import UsageError
from kglink.files.atomic import file_lock, hidden_beside, replace_file
from kglink.files.digest import bytes_digest, text_digest
from kglink.records import LinkedDocument, TextInput
from kglink.workspace.outputs import (
    PACKED,
    cannot_write,
    checked_output,
    export_links,
    naming_full_disk,
    whole_file,
)
from kglink_cli.console import Reached, counted, display, note

if TYPE_CHECKING:
    from kglink.config import LinkSection
    from kglink.plugins import Exporter, Registry
    from kglink.workspace import Workspace
    from kglink.workspace.ray_workers import Chunk

_FORMAT_OF_SUFFIX = {
    "": "table", ".txt": "table", ".log": "table", ".html": "html", ".htm": "html",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json",
    ".csv": "csv", ".pubtator": "pubtator", ".ann": "brat", ".ttl": "nif",
}  # fmt: skip
#: The format that can be written piece by piece, so that an interrupted run can go on.
RESUMABLE = "kglink/jsonl"

#: Gives the links of all inputs but the first ones, which are written already.
LinkRest = Callable[[Sequence["Written"]], Iterable[LinkedDocument]]


class Written(NamedTuple):
    """A document that an interrupted run has written."""

    id: str
    text: str


def format_of(chosen: str | None, output: Path | None) -> str:
    """The format that was named, else the one of the file's ending, else the table."""
    if chosen or output is None:
        return chosen or "table"
    suffix = output.suffix.lower()
    if suffix not in _FORMAT_OF_SUFFIX:
        raise UsageError(
            f"the ending of {output} names no format",
            hint="Name one with --format: table, json, jsonl, html, csv, pubtator, brat, nif or a "
            "plugin's; or end the "
            f"file's name in {', '.join(filter(None, _FORMAT_OF_SUFFIX))}.",
        )
    return _FORMAT_OF_SUFFIX[suffix]


def exporter_of(registry: Registry, name: str, link: LinkSection, *, explain: bool) -> Exporter:
    """The exporter with the settings of the format, and with what is asked to be shown."""
    from kglink.plugins.settings import setting_keys

    own: dict[str, object] = {}
    for setting, value in link.output_settings.items():
        of, dot, key = setting.rpartition(".")
        if not dot or registry.get("exporter", of).name == name:
            own[key] = value
    for asked, wanted in (("explain", explain), ("rejected", link.rejected)):
        if wanted:
            own[asked] = True
            formats = registry.plugins("exporter")
            able = [one.name for one in formats if asked in setting_keys(one.settings)]
            if name not in able:
                raise UsageError(
                    f"{name} cannot show what --{asked} asks for",
                    hint=f"Formats that can: {', '.join(able)}.",
                )
    return registry.create("exporter", name, own)


@contextmanager
def reserved(workspace: Workspace, output: Path | None, sources: Sequence[str]) -> Iterator[None]:
    """Hold the right to write ``output``, or say at once why it cannot be written."""
    if output is None:
        yield
        return
    checked_output(workspace, output)
    for source in sources:
        _refuse_inputs(output, source)
    # One process writes a file; the system frees the lock of a process that dies.
    busy = UsageError(
        f"{output} is being written by another process",
        hint="Wait until it is done, or name another file with -o.",
    )
    target = output.resolve()
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(hidden_beside(target, "lock"), busy, remove=True))
        except OSError as error:
            raise cannot_write(output, error) from error
        yield


class Output(NamedTuple):
    """Where the links of a run go, and how they are written."""

    workspace: Workspace
    path: Path | None
    """None: to standard output."""
    exporter: Exporter
    format: str
    made_by: object
    """All that decides the output: only a run with the same goes on with a file."""

    def write(self, link: LinkRest) -> None:
        """Write everything that ``link`` gives, except for documents that are written already."""
        if self.path is None:
            export_links(self.exporter, link(()), sys.stdout)
        elif self.format == RESUMABLE and self.path.suffix.lower() not in PACKED:
            _write_resumable(self.path, self.exporter, self.made_by, link)
        else:
            with whole_file(self.workspace, self.path) as out:
                export_links(self.exporter, link(()), out)


def after(
    inputs: Iterator[TextInput], written: Sequence[Written], *, again: bool = False
) -> Iterator[TextInput]:
    """The inputs after the written ones, found by number, since an id may come twice.

    ``again``: yield the written ones too, because they help the others.
    """
    for number, known in enumerate(written, 1):
        text = next(inputs, None)
        if text is None or (text.id, text.text) != known:
            found = "gone" if text is None else f"{text.id!r} now"
            if text is not None and text.id == known.id:
                found = "another text now"
            raise UsageError(
                f"document {number:,} of the interrupted run was {known.id!r}, and is {found}",
                hint="The source changed: remove the hidden .partial file beside the output.",
            )
        if again:
            yield text
    yield from inputs


def _refuse_inputs(output: Path, source: str) -> None:
    """Refuse an output that is read as an input, by this run or when it is run again."""
    path = Path(source)
    if source == "-" or not path.exists():
        return
    if output.exists() and output.samefile(path):
        raise UsageError(
            f"{output} is the source itself", hint="Name another file to write with -o."
        )
    root, target = path.resolve(), output.resolve()
    if not path.is_dir() or not target.is_relative_to(root):
        return
    if not any(part.startswith(".") for part in target.relative_to(root).parts):
        raise UsageError(
            f"{output} lies in the folder that is read, and would be an input itself",
            hint="Name a file outside of that folder with -o.",
        )


def _write_resumable(output: Path, exporter: Exporter, made_by: object, link: LinkRest) -> None:
    with opened_draft(output, made_by) as (draft, raw):
        written = list(_whole_lines(raw))
        if written:
            note("resumed", f"after {counted(len(written), 'document')} of an interrupted run")
        with io.TextIOWrapper(raw, encoding="utf-8", newline="\n") as out:
            export_links(exporter, link(written), out)
    try:
        replace_file(draft, output.resolve())
    except OSError as error:
        raise cannot_write(output, error) from error
    remove_drafts(output)


@contextmanager
def opened_draft(output: Path, made_by: object) -> Iterator[tuple[Path, BinaryIO]]:
    """The hidden file in which the same run keeps what it has done before its output is whole."""
    target = output.resolve()  # A link is written through: the file that it names is replaced.
    fingerprint = text_digest(json.dumps(made_by, sort_keys=True, default=str), size=8)
    draft = hidden_beside(target, f"{fingerprint}.partial")
    try:
        raw = _our_own(draft)
    except OSError as error:
        raise cannot_write(output, error) from error
    try:
        with naming_full_disk(output), raw:
            yield draft, raw
    except BaseException:
        with suppress(FileNotFoundError):  # another run to this output has removed it
            if not draft.stat().st_size:
                draft.unlink()
        raise


def remove_drafts(output: Path) -> None:
    """Remove all drafts: nobody can want those of other settings or texts beside the output."""
    target = output.resolve()
    start = glob.escape(hidden_beside(target, "").name)
    for stale in target.parent.glob(f"{start}{'[0-9a-f]' * 16}.partial"):
        stale.unlink()


def _our_own(path: Path) -> BinaryIO:
    """A draft of our own; one that somebody else made, or may write to, is begun anew.

    A link that somebody planted in its place is not followed.
    """
    raw = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b")
    status = os.fstat(raw.fileno())
    alone = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    if alone and status.st_uid == os.geteuid() and not status.st_mode & stat.S_IWOTH:
        return raw
    raw.close()
    path.unlink()
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o664), "r+b")


def _whole_lines(lines: BinaryIO) -> Iterator[Written]:
    """A draft's documents up to the first that is cut off or damaged; the rest goes."""
    whole = 0
    for line in lines:
        known = _written(line) if line.endswith(b"\n") else None
        if known is None:
            break
        whole += len(line)
        yield known
    lines.seek(whole)
    lines.truncate()


def _written(line: bytes) -> Written | None:
    """The document of a line; None of one that no run of ours has written."""
    try:
        record = json.loads(line)
        known = Written(record["id"], record["text"])
        spans = [(one["start"], one["end"], one["text"]) for one in record["entities"]]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    if not isinstance(known.id, str) or not isinstance(known.text, str):
        return None
    try:
        return known if all(known.text[start:end] == text for start, end, text in spans) else None
    except TypeError:
        return None


# ----------------------------------------------------------------------------------- a cluster


def output_of_chunks(output: Path | None, exporter: str) -> Path:
    """The output, which is a file of JSON lines: they alone can be put together from chunks."""
    if output is None or exporter != RESUMABLE or output.suffix.lower() in PACKED:
        raise UsageError(
            "--engine ray writes a file of JSON lines", hint="Name one: -o answers.jsonl"
        )
    return output


def link_on_cluster(
    to: Output, inputs: Iterable[TextInput], reached: Callable[[int], Reached]
) -> int:
    """Write the answers of a Ray cluster to all texts; gives the number of their mentions.

    Finished chunks are kept beside the output, and the same command goes on after them. If chunks
    fail, the others are done first. ``reached`` says how far so many texts are in all.
    """
    from kglink.linking.pipeline import text_groups
    from kglink.workspace.link import LinesJob, job_of
    from kglink.workspace.ray_workers import Failed, RayWorkers, chunks_failed

    workspace, path = to.workspace, output_of_chunks(to.path, to.format)
    workers, on_error = workspace.settings.link.workers, workspace.settings.ingest.on_error
    done = mentions = 0
    names: list[str] = []
    failed: list[str] = []
    with opened_draft(path, [to.made_by, "chunks"]) as (_, file):
        kept = KeptChunks(file)
        if kept:
            note("resumed", f"after {counted(len(kept), 'chunk')} of an interrupted run")

        def left() -> Iterator[Chunk]:
            nonlocal done
            for number, texts in enumerate(text_groups(inputs)):
                chunk = chunk_of(number, texts)
                names.append(name_of(chunk))
                if names[-1] in kept:
                    done += len(texts)
                elif texts:
                    yield chunk

        job = LinesJob(job_of(workspace), to.exporter)
        with display() as show, RayWorkers(job, workers, note) as cluster:
            for chunk, answer in cluster.do(left()):
                if isinstance(answer, Failed):
                    failed.append(answer.said)
                    note("failed", answer.said)
                else:
                    lines, count = answer
                    kept.add(name_of(chunk), lines)
                    mentions += count
                done += len(chunk.given)
                show(reached(done))
        if failed and (on_error == "stop" or not kept):
            raise chunks_failed(
                failed,
                "The others are done and kept: the same command tries these again, and with "
                "--on-error skip it writes the answers without them.",
            )
        with whole_file(workspace, path) as out:
            kept.write(names, out.buffer)
    if failed:
        raise chunks_failed(failed, f"{path} has the others; the same command tries these again.")
    remove_drafts(path)
    return mentions


class KeptChunks:
    """The finished chunks of a run in a file, each behind a line that says which it is."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        #: By the name of a chunk: where its lines stand, and their length.
        self._places: dict[str, tuple[int, int]] = {}
        whole, end = file.tell(), file.seek(0, os.SEEK_END)
        file.seek(whole)
        for head in iter(file.readline, b""):
            if not self._is_read(head, end):
                break  # cut off, or damaged: it is linked again, and what comes after it
            whole = file.tell()
        file.seek(whole)
        file.truncate()

    def _is_read(self, head: bytes, end: int) -> bool:
        try:
            name, length, digest = json.loads(head)
            place = self._file.tell(), max(0, length)
            if sum(place) > end or bytes_digest(self._file.read(place[1])) != digest:
                return False
            self._places[name] = place
        except (ValueError, TypeError, RecursionError):
            return False
        return True

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def add(self, name: str, lines: bytes) -> None:
        """Keep the answers to a chunk."""
        head = json.dumps([name, len(lines), bytes_digest(lines)])
        self._file.write(head.encode() + b"\n")
        self._places[name] = self._file.tell(), len(lines)
        self._file.write(lines)
        self._file.flush()

    def read(self, name: str) -> bytes:
        """The answers to a chunk that is kept."""
        start, length = self._places[name]
        self._file.seek(start)
        found = self._file.read(length)
        self._file.seek(0, os.SEEK_END)
        return found

    def write(self, names: Iterable[str], out: BinaryIO) -> None:
        """Write the answers to those of some chunks that are kept, in their order."""
        out.writelines(self.read(name) for name in names if name in self)


def chunk_of(number: int, texts: Sequence[TextInput]) -> Chunk:
    """Some texts of a run, which are linked together."""
    from kglink.workspace.ray_workers import Chunk

    ends = (texts[0], texts[-1]) if len(texts) > 1 else texts
    words = " to ".join(repr(one.id) for one in ends)
    return Chunk(number, texts, f"texts {words}" if len(texts) > 1 else f"text {words}")


def name_of(chunk: Chunk) -> str:
    """Another name for every other place in a run, and for other texts."""
    return text_digest(f"{chunk.number} {chunk.given!r}")
