"""`kglink link`: the entities that texts mean."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from kglink.errors import KBChangedError, RecordError, SpaceBusyError, SpaceError, UsageError
from kglink.records import LinkedDocument
from kglink.sources import Problems, Source
from kglink.workspace.folder import CLUSTERER
from kglink_cli import shared
from kglink_cli.build import build_with_progress, ensure_space, tell_names_alone
from kglink_cli.console import Reached, counted, display, note
from kglink_cli.outputs import (
    RESUMABLE,
    Output,
    Written,
    after,
    exporter_of,
    format_of,
    link_on_cluster,
    output_of_chunks,
    reserved,
)
from kglink_cli.session import (
    is_on_ray,
    limit_flags,
    open_workspace,
    parse_options,
    split_names,
    tell_clusterer,
    tell_reranker,
    tell_stages,
)

if TYPE_CHECKING:
    from kglink.linking.pipeline import Linker
    from kglink.workspace import Workspace
    from kglink.workspace.texts import TextReader

STDIN = "-"
#: Settings that change no answer.
_NO_MATTER = {"ingest": {"on_error", "batch_size"}, "link": {"workers"}}


def link(
    context: typer.Context,
    sources: list[str] = Argument(
        ..., help="Files, folders, or - for standard input.", metavar="SOURCE..."
    ),
    kb: shared.KBNames = None,
    types: shared.Types = None,
    under: shared.Under = None,
    not_under: shared.NotUnder = None,
    output_format: str | None = Option(
        None,
        "--format",
        "-f",
        help="table (default), json, jsonl, html, csv, pubtator, bioc, brat, labelstudio, nif.",
    ),
    as_json: bool = Option(False, "--json", help="The same as --format json."),
    output: shared.Output = None,
    top_k: shared.TopK = None,
    threshold: float | None = Option(
        None,
        help="Least probability of a link, 0 (link everything) to 1 (nothing): .1 gives more "
        "links, with more wrong ones; .7 fewer and surer ones. By default what kglink fit "
        "chose, or .3.",
    ),
    prefer: list[str] | None = Option(
        None, help="KBs to prefer if several have the entity, best first: a,b"
    ),
    per_kb: bool = Option(False, "--per-kb", help="Also show the answer of each KB alone."),
    rerank: shared.Rerank = None,
    clustered: bool = Option(False, "--cluster", help="Let similar mentions help each other."),
    nested: bool | None = Option(None, "--nested", help="Allow mentions inside other mentions."),
    explain: bool = Option(False, "--explain", help="Show the evidence for each candidate."),
    rejected: bool = Option(False, "--rejected", help="Show what was not linked, and why."),
    marked: bool = Option(False, "--marked", help="Link only the mentions marked [[like this]]."),
    detector: shared.Detector = None,
    options: list[str] | None = Option(
        None, "--set", help="A setting of the detector, key=value; may be repeated."
    ),
    input_options: list[str] | None = Option(
        None,
        "--input-set",
        help="A setting of the adapter that reads the texts, such as tables=true, or text=body "
        "for JSON lines; may be repeated.",
    ),
    output_options: list[str] | None = Option(
        None,
        "--output-set",
        help="A setting of the output format, such as show_text=false; `kglink plugins --json` "
        "lists them; may be repeated.",
    ),
    adapter: str | None = Option(
        None, "--input", help="Adapter that reads the texts; by default guessed (auto)."
    ),
    lines: bool = Option(
        False,
        "--lines",
        help="Read each line as a text, and answer it before reading the next (as JSON lines, "
        "unless you give --format).",
    ),
    language: str | None = Option(None, help="Language of the texts, such as de; else guessed."),
    on_error: str | None = Option(None, help="At a bad text: stop (the default), or skip it."),
    encoding: shared.Encoding = None,
    workers: int | None = Option(None, help="Processes that link texts; by default 1.", min=1),
    engine: str = Option(
        "processes",
        help="Where the workers run: processes of this machine, or ray: on a Ray cluster "
        "(RAY_ADDRESS), with -o FILE.jsonl.",
    ),
    part: str | None = Option(
        None,
        help="Link only this part, such as 3/10: the third tenth of a folder's files, or of a "
        "file's texts. All parts joined in order are the whole output, in JSON lines, "
        "PubTator and brat-text.",
    ),
    wait: bool = Option(
        False,
        "--wait",
        help="Make the vectors of new KBs before the first answer, instead of answering by "
        "names alone.",
    ),
    space: shared.SpaceName = None,
) -> None:
    """Link the mentions of texts to entities of several KBs.

    Mentions are found in the text, or given: marked with --marked, or as spans in JSON lines
    ({"id", "text", "entities": [{"start", "end"}]}); with an empty list, mentions are found.
    Plain text, mails, HTML, Markdown, PDF and Word files are read as texts; offsets count in the
    text of the output. Several sources are one run, in the order given; the path names each text.
    A run that writes JSON lines to a file continues after an interruption: give the command again.

    A large new KB is linked at once by its names alone. Its vectors are made after the answers;
    Ctrl-C keeps those that are made.
    """
    from kglink.workspace.link import refuse_stages
    from kglink.workspace.link_setup import check_plugins
    from kglink.workspace.texts import Part, TextReader

    streamed = lines and sources == [STDIN]
    by_ray = is_on_ray(engine)
    divides = {"--engine ray": by_ray, "--part": part is not None, "--workers": (workers or 1) > 1}
    if as_json and output_format not in (None, "json"):
        raise UsageError(f"--json, and --format {output_format}", hint="Leave one of the two out.")
    _check(sources, lines, [name for name, used in divides.items() if used], output, encoding)
    flags: dict[str, object] = {
        "ingest.on_error": on_error,
        "link.kbs": split_names(kb) or None,
        "link.input": adapter,
        "ingest.encoding": encoding,
        "link.input_settings": parse_options(input_options, "--input-set") or None,
        "link.language": language,
        **limit_flags(types, under, not_under),
        "link.prefer": split_names(prefer) or None,
        "link.per_kb": per_kb or None,
        "link.top_k": top_k,
        "link.rerank_top": rerank,
        "link.clusterer": CLUSTERER if clustered else None,
        "link.threshold": threshold,
        "link.nested": nested,
        "link.detector": split_names(detector) or None,
        "link.detector_settings": parse_options(options) or None,
        "link.workers": workers,
        "link.rejected": rejected or None,
        "link.output_settings": parse_options(output_options, "--output-set") or None,
        "space.name": space,
    }

    with open_workspace(context, flags) as workspace, reserved(workspace, output, sources):
        registry, settings = workspace.registry, workspace.settings
        usual = "json" if as_json else "jsonl" if lines and output is None else None
        name = registry.get("exporter", format_of(output_format or usual, output)).name
        exporter = exporter_of(registry, name, settings.link, explain=explain)
        if by_ray:
            output_of_chunks(output, name)
        reader = TextReader(
            registry,
            InputProblems(settings.ingest.on_error),
            settings.link,
            marked=marked,
            part=None if part is None else Part.parse(part),
        )
        check_plugins(workspace.detector().link, registry)
        ensure_space(workspace, settings.link.kbs, wait=workspace.waits_for_vectors(wait))
        published = workspace.space()
        kbs = workspace.linked_kbs(published)
        names_alone = tell_names_alone(workspace, published, kbs, "; --wait waits for the rest")
        tell_reranker(workspace)
        clustering = tell_clusterer(workspace)
        chosen = workspace.detector(published)
        if chosen.note:
            note("mentions", chosen.note)
        linker = workspace.linker(space=published)
        if by_ray or part:
            option = "--engine ray" if by_ray else "--part"
            refuse_stages(linker, f"{option} divides them", f"Leave {option} out.")
        if part and name not in _JOINED:
            note("part", f"what {name} writes of several parts cannot be put together to one file")
        began = time.monotonic()
        with ExitStack() as closing:
            source = None if streamed else closing.enter_context(workspace.open_source(*sources))
            # Overlaps are shown, and weigh in the decision. What a bad text does changes no line
            # before it.
            made_by = [
                source and state_of(source), part, name, explain, marked, lines,
                published.manifest.segments, str(linker.scoring), chosen.identity, clustering,
                workspace.store.overlap_state(),
                workspace.store.memory_state(),
                settings.model_dump(mode="json", exclude=_NO_MATTER),
            ]  # fmt: skip
            to = Output(workspace, output, exporter, name, made_by)
            if by_ray and source:
                reached = partial(texts_done, reader=reader, source=source)
                mentions = link_on_cluster(to, reader.read(source), reached)
            else:
                mentions = _link_here(to, linker, reader, source, lines=lines)
            sys.stdout.flush()  # who reads the answers needs not wait for what comes now
        tell_stages(workspace)
        _tell_linked(mentions, time.monotonic() - began, output, reader)
        if names_alone:
            _make_vectors(workspace)


def _make_vectors(workspace: Workspace) -> None:
    from kglink.workspace.spaces import is_of_writing

    note("space", "making the other vectors now (Ctrl-C stops, and keeps those made)")
    try:
        build_with_progress(workspace)
    except SpaceError as error:
        if not (isinstance(error, SpaceBusyError | KBChangedError) or is_of_writing(error)):
            raise
        note("space", f"{error.message}; the answers above are whole")


def _link_here(
    to: Output, linker: Linker, reader: TextReader, source: Source | None, *, lines: bool
) -> int:
    """Write the links of this process and its workers; gives the number of mentions."""
    from kglink.workspace.link import linked_by_workers

    workspace = to.workspace
    answer = linker.link if lines else partial(linked_by_workers, workspace, linker)
    mentions = 0

    def linked(written: Sequence[Written]) -> Iterator[LinkedDocument]:
        nonlocal mentions
        if source is None:
            arriving = arriving_lines(int(workspace.settings.ingest.max_line_mb * 2**20))
            inputs = reader.read_lines(arriving, "standard input")
        elif lines:
            read = ((number, line) for number, _, line in source.byte_lines(reader.problems))
            inputs = reader.read_lines(read, source.label)
        else:
            inputs = reader.read(source)
        rest = after(inputs, written, again=linker.sees_all)
        batches = ([text] for text in rest) if lines else [rest]
        documents = (one for batch in batches for one in answer(batch))
        linked_now = islice(documents, len(written) * linker.sees_all, None)
        # A bar would run through a table that is printed to the same terminal.
        with display(visible=to.path is not None or not sys.stdout.isatty()) as show:
            show(texts_done(len(written), reader, source))
            for done, document in enumerate(linked_now, len(written) + 1):
                show(texts_done(done, reader, source))
                mentions += len(document.links)
                yield document

    to.write(linked)
    return mentions


def _tell_linked(mentions: int, seconds: float, output: Path | None, reader: TextReader) -> None:
    where = f" to {output}" if output else ""
    note("linked", f"{counted(mentions, 'mention')} in {seconds:.1f} s{where}")
    # Say what was not linked, and why.
    if reader.left_out:
        names = ", ".join([*reader.left_out][:3]) + (", ..." if len(reader.left_out) > 3 else "")
        verb = "is" if len(reader.left_out) == 1 else "are"
        files = counted(len(reader.left_out), "file")
        note("left out", f"{files} that {verb} not text: {names}")
        if hint := next(filter(None, reader.left_out.values()), ""):
            note("convert", hint)
    if (problems := reader.problems).counts:
        first, *_ = problems.examples[0].splitlines()
        note("skipped", f"{counted(problems.total, 'bad record')}: {first}")


#: The formats whose parts, one behind the other, are the whole.
_JOINED = (RESUMABLE, "kglink/pubtator", "kglink/brat-text")


def _check(
    sources: Sequence[str],
    lines: bool,
    divides: Sequence[str],
    output: Path | None,
    encoding: str | None,
) -> None:
    """Refuse what cannot be meant; ``divides``: the options that divide the texts."""
    if lines and len(sources) > 1:
        raise UsageError(
            f"--lines reads one file, and {len(sources)} were named",
            hint=f"One after the other: cat {shlex.join(sources)} | kglink link - --lines",
        )
    if lines and divides:
        raise UsageError(
            f"--lines answers one text after the other, and {divides[0]} divides the texts",
            hint="Leave one of the two away.",
        )
    words = " ".join(sources).strip()
    missing = [one for one in sources if one != STDIN and not Path(one).exists()]
    if " " in words and len(missing) == len(sources):
        raise UsageError(
            f"there is no file {sources[0]!r}",
            hint=f"If it is the text: echo {shlex.quote(words)} | kglink link -",
        )
    if missing:  # told before vectors are made
        Source.open_path(missing[0])

    streamed = lines and sources == [STDIN]
    if streamed and output:
        raise UsageError(
            "--lines answers on standard output as lines arrive",
            hint="Leave -o away, and redirect the output: > FILE.",
        )
    if streamed and encoding:
        raise UsageError(
            "--lines reads standard input as UTF-8",
            hint=f"... | iconv -f {shlex.quote(encoding)} -t UTF-8 | kglink link - --lines",
        )


def texts_done(done: int, reader: TextReader, source: Source | None) -> Reached:
    """How many texts of all, as far as each file is one text; else the share of the bytes read.

    Of a stream (no ``source``) nobody knows how many will come.
    """
    if source is None:
        return Reached("texts", done, None, done)
    if source.is_folder and not reader.files_begun:
        return Reached("texts", done, len(source.files()), done)
    if reader.files_begun and reader.texts_read <= reader.files_begun:
        return Reached("texts", done, reader.texts_read + reader.files_left, done)
    return Reached("texts", source.bytes_read, source.bytes_total, done, "bytes")


class InputProblems(Problems):
    """Bad inputs; of `link`'s options, --set is the detector's and --input-set the reader's."""

    def report(self, error: RecordError) -> None:
        """Raise or count a bad input, its hint in the words of this command."""
        error.hint = error.hint.replace("--set ", "--input-set ")
        super().report(error)


def state_of(source: Source) -> object:
    """What changes with the content of a source: its bytes, of a folder names and times."""
    if not source.is_folder:
        return [source.name, source.fingerprint()]
    states: list[list[object]] = []
    for file in source.files():
        states.append([file.name])
        with suppress(OSError):  # who reads it is told why it may not be read
            status = file.path.stat() if file.path else None
            states[-1] += (status.st_size, status.st_mtime_ns) if status else (file.fingerprint(),)
    return states


def arriving_lines(longest: int) -> Iterator[tuple[int, bytes]]:
    """The lines of standard input with their numbers, each as soon as it is there."""
    for number, line in enumerate(iter(partial(sys.stdin.buffer.readline, longest + 1), b""), 1):
        if len(line) > longest:
            raise RecordError(
                f"the line is longer than {longest:,} bytes",
                where=f"standard input, line {number}",
                hint="Raise ingest.max_line_mb.",
            )
        yield number, line
