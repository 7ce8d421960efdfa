"""`kglink link --engine ray`: chunks are kept as a cluster links them, and written in order."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kglink.errors import SpaceError, UsageError
from kglink.files.digest import bytes_digest, text_digest
from kglink.linking.pipeline import text_groups
from kglink.workspace.outputs import PACKED, whole_file
from kglink_cli.console import Reached, counted, display, note
from kglink_cli.outputs import RESUMABLE, Output, opened_draft, remove_drafts

if TYPE_CHECKING:
    from kglink.records import TextInput
    from kglink.workspace.ray_workers import Chunk

_SHOWN_FAILURES = 3


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
    from kglink.workspace.link import Failed, job_of
    from kglink.workspace.ray_workers import Chunk, linked_by_ray

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
                chunk = Chunk(number, texts)
                names.append(name_of(chunk))
                if names[-1] in kept:
                    done += len(texts)
                elif texts:
                    yield chunk

        job, tell = job_of(workspace), partial(note, "ray")
        answers = linked_by_ray(job, to.exporter, left(), workers, tell)
        with display() as show, closing(answers):
            for chunk, answer in answers:
                if isinstance(answer, Failed):
                    failed.append(f"{chunk} ({answer.why})")
                    note("failed", failed[-1])
                else:
                    kept.add(name_of(chunk), answer.lines)
                    mentions += answer.mentions
                done += len(chunk.texts)
                show(reached(done))
        if failed and (on_error == "stop" or not kept):
            raise _failure(
                failed,
                "The others are done and kept: the same command tries these again, and with "
                "--on-error skip it writes the answers without them.",
            )
        with whole_file(workspace, path) as out:
            kept.write(names, out.buffer)
    if failed:
        raise _failure(failed, f"{path} has the others; the same command tries these again.")
    remove_drafts(path)
    return mentions


def _failure(failed: list[str], hint: str) -> SpaceError:
    more = f"; {len(failed) - _SHOWN_FAILURES} more" if len(failed) > _SHOWN_FAILURES else ""
    shown = "; ".join(failed[:_SHOWN_FAILURES])
    return SpaceError(f"{counted(len(failed), 'chunk')} failed: {shown}{more}", hint=hint)


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

    def write(self, names: Iterable[str], out: BinaryIO) -> None:
        """Write the answers to those of some chunks that are kept, in their order."""
        for name in names:
            start, length = self._places.get(name, (0, 0))
            self._file.seek(start)
            out.write(self._file.read(length))


def name_of(chunk: Chunk) -> str:
    """Another name for every other place in a run, and for other texts."""
    return text_digest(f"{chunk.number} {chunk.texts!r}")
