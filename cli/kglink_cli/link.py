"""`kglink link` and `kglink search`: the entities that texts and words mean."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kglink.errors import RecordError, SourceError, UsageError
from kglink.records import Document, LinkedDocument, Progress, Span, TextInput
from kglink.sources import Problems, Source, check_sizes
from kglink.workspace.shapes import found_shape
from kglink_cli.build import ensure_space
from kglink_cli.console import counted, note, print_json, print_table, progress
from kglink_cli.outputs import Written, after, format_of, reserved, write_to
from kglink_cli.session import parse_options, session_of, split_names

if TYPE_CHECKING:
    from kglink.plugins import KBAdapter

DOCUMENTS = "kglink/documents"
_JSON_NAMES = (".jsonl", ".ndjson", ".json")


def link(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="A file, a folder, or - for standard input.")],
    kb: Annotated[str | None, typer.Option("--kb", help="Only these KBs: a,b")] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="table, json, jsonl, html, csv, pubtator, brat, brat-text, or a plugin's.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to a file.", dir_okay=False)
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", "-k", help="Candidates for each mention.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="Less probable than this is NIL, 0 to 1."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what speaks for each candidate.")
    ] = False,
    marked: Annotated[
        bool, typer.Option("--marked", help="Mentions are marked in the text: [[like this]].")
    ] = False,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the detector, key=value; may be repeated."),
    ] = None,
    input_options: Annotated[
        list[str] | None,
        typer.Option(
            "--input-set",
            help="A setting of kglink/documents, which reads JSON lines, such as offsets=utf16; "
            "may be repeated.",
        ),
    ] = None,
    on_error: Annotated[
        str | None, typer.Option("--on-error", help="stop or skip at a bad text.")
    ] = None,
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
) -> None:
    """Link the mentions of texts to entities of several KBs.

    Mentions are found in the text, or given: marked with --marked, or as spans in JSON lines
    ({"id", "text", "entities": [{"start", "end"}]}); a text whose list is empty is searched. A
    run that writes JSON lines to a file and is interrupted goes on where it stopped.
    """
    if kb is not None and not split_names(kb):
        raise UsageError(f"--kb {kb!r} names no KB", hint="Example: --kb a,b; without it: all.")
    flags: dict[str, object] = {
        "ingest.on_error": on_error,
        "link.kbs": split_names(kb) or None,
        "link.top_k": top_k,
        "link.threshold": threshold,
        "link.detector_settings": parse_options(options) if options else None,
        "space.name": space,
    }
    with session_of(context).open(flags) as workspace, reserved(workspace, output, source):
        registry, settings = workspace.registry, workspace.settings
        name = registry.get("exporter", format_of(output_format, output)).name
        exporter = registry.create("exporter", name, {"explain": True} if explain else {})
        # Where all mentions are given no detector is made, and none would refuse its settings.
        registry.settings_for("detector", settings.link.detector, settings.link.detector_settings)
        reading = registry.settings_for("kb", DOCUMENTS, parse_options(input_options or []))
        problems = InputProblems(settings.ingest.on_error)
        ensure_space(workspace)
        published = workspace.space()
        linker = workspace.linker(space=published)
        began = time.monotonic()
        mentions = 0
        with workspace.open_source(source) as opened:

            def linked(written: Sequence[Written]) -> Iterator[LinkedDocument]:
                nonlocal mentions
                documents = registry.create("kb", DOCUMENTS, reading)
                inputs = read_inputs(opened, documents, marked=marked, problems=problems)
                # A bar would run through a table that is printed to the same terminal.
                visible = output is not None or not sys.stdout.isatty()
                with progress(visible=visible) as tell:
                    for document in linker.link(after(inputs, written)):
                        mentions += len(document.links)
                        tell(Progress("mentions", mentions))
                        yield document

            # Overlaps are shown, and weigh in the decision. What a bad text does changes no line
            # before it.
            made_by = [
                state_of(opened), name, explain, marked, reading.model_dump(mode="json"),
                published.manifest.segments, str(linker.scoring), workspace.store.overlap_state(),
                settings.model_dump(mode="json", exclude={"ingest": {"on_error", "batch_size"}}),
            ]  # fmt: skip
            write_to(workspace, output, exporter, name, made_by, linked)
    seconds = time.monotonic() - began
    where = f" to {output}" if output else ""
    note("linked", f"{counted(mentions, 'mention')} in {seconds:.1f} s{where}")
    if problems.counts:
        note("skipped", f"{counted(problems.total, 'bad record')}: {problems.examples[0]}")


def search(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="A name, or a description in words.")],
    kb: Annotated[str | None, typer.Option("--kb", help="Only these KBs: a,b")] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="How many.", min=1)] = 10,
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find entities that a text names or describes, in all KBs."""
    with session_of(context).open({"space.name": space}) as workspace:
        ensure_space(workspace)
        found = workspace.search(text, k=top_k, kbs=split_names(kb))
        facts = workspace.store.get_entities([one.id for one in found])
    if as_json:
        print_json(found_shape(found, facts))
    elif found:
        described = {key: entity.description for key, entity in facts.items()}
        rows = [
            [f"{one.score:.2f}", str(one.id), one.title, described.get(one.id, "")[:100]]
            for one in found
        ]
        print_table(("score", "entity", "title", "description"), rows)
    else:
        note("nothing", "no entity is like that")


# ------------------------------------------------------------------------------------ inputs
class InputProblems(Problems):
    """Bad inputs; of `link`'s options, --set is the detector's and --input-set the reader's."""

    def leave_out(self, error: RecordError) -> None:
        """Count a bad input, its hint in the words of this command."""
        super().leave_out(_in_words_of_link(error))

    def report(self, error: RecordError) -> None:
        """Raise or count a bad input, its hint in the words of this command."""
        super().report(_in_words_of_link(error))


def _in_words_of_link(error: RecordError) -> RecordError:
    error.hint = error.hint.replace("--set ", "--input-set ")
    return error


def state_of(source: Source) -> object:
    """What tells the content of a source from another: its bytes, of a folder names and times."""
    if not source.is_folder:
        return [source.name, source.fingerprint()]
    stats = ((file.name, file.path.stat()) for file in source.files() if file.path)
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def read_inputs(
    source: Source, documents: KBAdapter, *, marked: bool, problems: Problems
) -> Iterator[TextInput]:
    """The texts of a file, of a folder's files in the order of their names, or of ``-``."""
    if not source.is_folder:
        yield from _read(source, documents, marked, problems)
        return
    files = source.files()
    if not files:
        raise SourceError(f"{source.path} holds no file", hint="Name a folder of texts.")
    left_out = 0
    for file in files:
        try:
            if file.bytes_total and b"\x00" in file.head.head:
                left_out += 1
                continue
            yield from _read(file, documents, marked, problems)
        except RecordError:
            raise  # one that was reported, and stops the run
        except SourceError as error:
            if problems.on_error == "stop":
                raise
            problems.report(RecordError(error.message, where=file.name, hint=error.hint))
    if left_out:
        note("left out", f"{left_out:,} files that are not text")


def _read(
    source: Source, documents: KBAdapter, marked: bool, problems: Problems
) -> Iterator[TextInput]:
    if not source.bytes_total:  # An empty text is a text.
        yield TextInput(source.name, "")
    elif _holds_records(source):
        yield from _read_records(source, documents, problems)
    else:
        try:
            text = _read_text(source, marked)
        except RecordError as error:
            problems.report(error)
        else:
            yield text


def _read_records(source: Source, documents: KBAdapter, problems: Problems) -> Iterator[TextInput]:
    for record in check_sizes(documents.read(source, problems), source, problems):
        if not isinstance(record, Document):
            raise UsageError(
                f"{source.name} holds entities, not texts",
                hint="Entities are added with `kglink add-kb NAME FILE`.",
            )
        spans = tuple(Span(mention.start, mention.end) for mention in record.mentions)
        yield TextInput(record.id, record.text, spans or None)


def _read_text(source: Source, marked: bool) -> TextInput:
    text = source.text()
    if not marked:
        return TextInput(source.name, text)
    from kglink.text.markup import parse_marked

    clean, marks = parse_marked(text)
    return TextInput(source.name, clean, tuple(marks))


def _holds_records(source: Source) -> bool:
    """Whether a source is JSON with one document a line; prose may begin with a bracket too."""
    head = source.head
    begins = head.head.lstrip()[:1]
    if head.name.lower().endswith(_JSON_NAMES):
        return True
    return head.name == "-" and begins == b"{" and b'"text"' in head.head
