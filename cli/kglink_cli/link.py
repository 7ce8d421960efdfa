"""`kglink link`: which entity of which KB each mention of a text means."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from kglink.errors import UsageError
from kglink.records import LinkedDocument, Progress
from kglink_cli.build import ensure_space
from kglink_cli.console import counted, note, progress
from kglink_cli.inputs import DOCUMENTS, InputProblems, read_inputs, state_of
from kglink_cli.outputs import after, format_of, reserved, write_to
from kglink_cli.session import parse_options, session_of, split_names


def link(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="A file, a folder, or - for standard input.")],
    kb: Annotated[str | None, typer.Option("--kb", help="Only these KBs: a,b")] = None,
    output_format: Annotated[
        str | None,
        typer.Option("--format", "-f", help="table, json, jsonl, html, or a plugin's."),
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
    with session_of(context).open(flags) as workspace, reserved(output, source):
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

            def linked(written: Sequence[str]) -> Iterator[LinkedDocument]:
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
            write_to(output, exporter, name, made_by, linked)
    seconds = time.monotonic() - began
    where = f" to {output}" if output else ""
    note("linked", f"{counted(mentions, 'mention')} in {seconds:.1f} s{where}")
    if problems.counts:
        note("skipped", f"{counted(problems.total, 'bad record')}: {problems.examples[0]}")
