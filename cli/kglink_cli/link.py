"""`kglink link`: which entity of which KB each mention of a text means."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from kglink.records import LinkedDocument
from kglink.sources import Problems
from kglink_cli.build import ensure_space
from kglink_cli.console import counted, note, progress
from kglink_cli.inputs import read_inputs
from kglink_cli.outputs import format_of, write_to
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
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
) -> None:
    """Link the mentions of texts to entities of several KBs.

    Mentions are found in the text, or given: marked with --marked, or as spans in JSON lines
    ({"id", "text", "entities": [{"start", "end"}]}). A run that writes JSON lines to a file and
    is interrupted goes on where it stopped.
    """
    flags: dict[str, object] = {
        "link.kbs": split_names(kb) or None,
        "link.top_k": top_k,
        "link.threshold": threshold,
        "link.detector_settings": parse_options(options) if options else None,
        "space.name": space,
    }
    with session_of(context).open(flags) as workspace:
        name = workspace.registry.get("exporter", format_of(output_format, output)).name
        exporter = workspace.registry.create("exporter", name, {"explain": True} if explain else {})
        problems = Problems(workspace.settings.ingest.on_error)
        ensure_space(workspace)
        published = workspace.space()
        linker = workspace.linker(space=published)
        began = time.monotonic()
        mentions = 0

        def linked(done: frozenset[str]) -> Iterator[LinkedDocument]:
            nonlocal mentions
            inputs = read_inputs(workspace, source, marked=marked, problems=problems)
            # A bar would run through a table that is printed to the same terminal.
            visible = output is not None or not sys.stdout.isatty()
            with progress("documents", None, visible=visible) as report:
                fresh = (text for text in inputs if text.id not in done)
                for count, document in enumerate(linker.link(fresh), 1):
                    mentions += len(document.links)
                    report(count, count)
                    yield document

        made_by = [
            source, name, explain, marked, published.manifest.segments,
            workspace.settings.model_dump(mode="json"),
        ]  # fmt: skip
        write_to(output, exporter, name, made_by, linked)
    seconds = time.monotonic() - began
    where = f" to {output}" if output else ""
    note("linked", f"{counted(mentions, 'mention')} in {seconds:.1f} s{where}")
    if problems.counts:
        note("skipped", f"{counted(problems.total, 'bad record')}: {problems.examples[0]}")
