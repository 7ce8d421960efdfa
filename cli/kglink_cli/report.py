"""`kglink report`: what runs of fine-tuning learnt, as one web page, plots and tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from kglink.errors import UsageError
from kglink.workspace.outputs import cannot_write, whole_file
from kglink.workspace.report import MAP_ENTITIES
from kglink_cli.console import note, print_json, progress
from kglink_cli.session import JudgedSplit, session_of, split_names
from kglink_cli.tables import TableFormat, write_tables

if TYPE_CHECKING:
    from kglink.workspace import Workspace

#: The tables' files by their endings.
ENDINGS: dict[str, TableFormat] = {"csv": "csv", "tex": "latex"}


def report(
    context: typer.Context,
    runs: list[str] = Argument(..., help="The runs, as `kglink runs` names them."),
    docs: str | None = Option(None, help="Judge on these documents: a,b (else those learnt from)."),
    split: JudgedSplit = None,
    output: Path | None = Option(
        None, "--output", "-o", help="The page to write; else report.html."
    ),
    map_entities: int = Option(
        MAP_ENTITIES, "--map", min=0, help="Most entities shown on the map; 0: no map."
    ),
    plots: Path | None = Option(None, help="Also write each plot to this folder, as SVG and PNG."),
    tables: Path | None = Option(
        None, help="Also write each table to this folder, as CSV and LaTeX."
    ),
    as_json: bool = Option(
        False, "--json", help="Print the JSON of the report, and write no page."
    ),
) -> None:
    """Write what runs learnt as one web page: figures, curves, errors, a map of the joint space.

    The page needs no network and nothing but itself. The spaces of the runs are judged on the
    split test of the documents where there is one, else on dev. Several runs are compared with
    the first.
    """
    from kglink_cli.report_page.plots import plots_of

    if as_json and output is not None:
        raise UsageError("--json prints, and -o names a page", hint="Leave one of the two out.")
    with session_of(context).open() as workspace:
        for folder in (plots, tables):
            if folder is not None:
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise cannot_write(folder, error) from error
        with progress() as tell:
            found = workspace.report(
                runs, split_names(docs), split=split, map_entities=map_entities, progress=tell
            )
        if plots is not None:
            drawn = plots_of(found)
            for one in drawn:
                with whole_file(workspace, plots / f"{one.name}.svg") as out:
                    out.write(one.svg(alone=True))
                with whole_file(workspace, plots / f"{one.name}.png") as out:
                    one.write_png(out.buffer)
            note("plots", f"{len(drawn)} in {plots}, as SVG and PNG")
        if tables is not None:
            _write_tables(workspace, found, tables)
        if as_json:
            print_json(found)
        else:
            write_page(workspace, found, output or Path("report.html"))


def write_page(
    workspace: Workspace,
    found: dict[str, Any],
    path: Path,
    title: str = "",
    first: Sequence[tuple[str, str, str]] = (),
) -> None:
    """Write the page of a report, that begins with the sections ``first``."""
    from kglink_cli.report_page.page import page_of

    text = page_of(found, title, first)
    with whole_file(workspace, path) as out:
        out.write(text)
    note("page", f"{path} ({len(text.encode()) / 1e6:,.1f} MB)")


def _write_tables(workspace: Workspace, found: dict[str, Any], folder: Path) -> None:
    from kglink_cli.report_page.tables import tables_of

    made = tables_of(found)
    for name, table in made:
        for ending, form in ENDINGS.items():
            path = folder / f"{name}.{ending}"
            with whole_file(workspace, path) as out, redirect_stdout(out):
                write_tables([table._replace(title="", below=())], form)
    note("tables", f"{len(made)} in {folder}, as CSV and LaTeX")
