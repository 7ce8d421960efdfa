"""`kglink plan`: what a source will take as a KB, before anything is started."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from kglink.workspace import find_workspace, init_workspace
from kglink_cli.console import note, print_json, print_table, progress
from kglink_cli.session import Encoding, parse_options, session_of

if TYPE_CHECKING:
    from kglink.workspace.plan import Plan


def plan(
    context: typer.Context,
    source: str = Argument(..., help="A file, a folder, or - for standard input."),
    adapter: str = Option("", "--adapter", "-a", help="How to read it; guessed where not told."),
    options: list[str] | None = Option(
        None, "--set", help="A setting of the adapter, key=value; may be repeated."
    ),
    machines: int = Option(1, min=1, help="Machines that make the vectors."),
    encoding: Encoding = None,
    on_error: str | None = Option(None, help="stop or skip at a bad record."),
    as_json: bool = Option(False, "--json", help="Print the plan as JSON."),
) -> None:
    """Say how much time, disk and memory a source will take as a KB; nothing is kept.

    Measured on this machine with the first 10,000 entities, and scaled to the size of the source.
    """
    from kglink.workspace import Workspace

    with ExitStack() as opened:
        folder = find_workspace(named=session_of(context).workspace)
        if folder is None:
            folder = init_workspace(Path(opened.enter_context(TemporaryDirectory())))
        flags = {"ingest.encoding": encoding, "ingest.on_error": on_error}
        workspace = opened.enter_context(Workspace.open(folder, flags=flags))
        with progress() as show:
            planned = workspace.plan(
                workspace.open_source(source),
                adapter=adapter,
                options=parse_options(options or []),
                machines=machines,
                progress=show,
                on_note=note,
            )
    if as_json:
        print_json(planned.as_json())
    else:
        _print(planned)


def _print(planned: Plan) -> None:
    about = "" if planned.is_counted else "about "
    note("plan", f"{about}{planned.entities:,} entities with {planned.names:,} names")
    rows = []
    for step in planned.steps:
        times = [_time(step.seconds), _time(step.seconds_divided)][: planned.machines]
        sizes = (f"{size:,.0f} MB" for size in (step.disk_mb, step.memory_mb))
        rows.append([step.name, *times, *sizes])
    divided = [f"on {planned.machines} machines"] * (planned.machines > 1)
    columns = ["step", "time", *divided, "disk", "memory"]
    print_table(columns, rows, right=range(1, len(columns)))


def _time(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
