"""`kglink runs`, `recipes` and `report`: runs of fine-tuning, and what they learnt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from kglink.errors import UsageError
from kglink.workspace.folder import MAP_ENTITIES
from kglink.workspace.outputs import cannot_write, whole_file
from kglink_cli import shared
from kglink_cli.console import (
    TableFormat,
    counted,
    note,
    print_json,
    print_table,
    progress,
    say,
    write_tables,
)
from kglink_cli.session import open_workspace, split_names

if TYPE_CHECKING:
    from kglink.workspace import Workspace
    from kglink.workspace.training import WorkspaceRun

RUN_COLUMNS = ("name", "recipe", "sources", "KBs", "state", "steps", "recall", "began", "space")
BARS = "▁▂▃▄▅▆▇█"
#: A curve is drawn in at most this number of columns.
WIDTH = 60


def runs(
    context: typer.Context,
    name: str = Argument("", help="Show the settings and the curve of this run."),
    delete: str = Option("", help="Remove this run with its model.", metavar="NAME"),
    yes: shared.Yes = False,
    as_json: shared.AsJson = False,
) -> None:
    """List the runs of `kglink finetune`, show one with its curve, or delete one."""
    if name and delete:
        raise UsageError(
            "a run to show and one to delete", hint=f"To delete {name}: --delete {name}"
        )
    with open_workspace(context) as workspace:
        if delete:
            workspace.check_run_deletable(delete)
            if not yes:
                typer.confirm(f"Remove run {delete} with its model?", abort=True, err=True)
            workspace.delete_run(delete)
            note("removed", f"run {delete}")
        elif name:
            _show(workspace.run(name), as_json=as_json)
        else:
            found = workspace.runs()
            if as_json:
                print_json([run.as_json() for run in found])
            elif found:
                print_table(RUN_COLUMNS, [_row(run) for run in found], right=(5,))
            else:
                note("empty", "no run yet: kglink finetune --source-kb A --target-kb B")


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """Values as bars of eight heights, from the least to the most of them."""
    if not values:
        return ""
    count = min(width, len(values))
    bounds = [at * len(values) // count for at in range(count + 1)]
    means = [sum(values[start:stop]) / (stop - start) for start, stop in pairwise(bounds)]
    low, high = min(means), max(means)
    step = (high - low) / (len(BARS) - 1) or 1.0
    return "".join(BARS[round((mean - low) / step)] for mean in means)


def _row(run: WorkspaceRun) -> list[object]:
    info, settings = run.info, run.info.settings
    sides, metric = (settings.source_kbs, settings.target_kbs), settings.recipe.selection.metric
    recall = "" if info.recalls is None else f"{metric} {info.recalls['mean'][metric]:.3f}"
    return [
        info.name, settings.recipe_name or "(of a program)", settings.sources,
        " + ".join(",".join(kbs) for kbs in sides if kbs), run.state, info.steps, recall,
        settings.started, ",".join(run.spaces),
    ]  # fmt: skip


def _show(run: WorkspaceRun, *, as_json: bool) -> None:
    if as_json:
        print_json(run.whole_as_json())
        return
    lines = run.curve.lines()
    for key, value in _facts(run).items():
        say(f"{key:17} {value}")
    steps = [line for line in lines if "loss" in line]
    for stage in dict.fromkeys(line["stage"] for line in steps):
        losses = [line["loss"] for line in steps if line["stage"] == stage]
        ends = f"{losses[0]:.3f} to {losses[-1]:.3f}"
        say(f"{f'loss of {stage}':17} {sparkline(losses)}  {ends}")
    evaluations = [line for line in lines if "mean" in line]
    if evaluations:
        metrics = tuple(evaluations[0]["mean"])
        say("")
        columns = ("stage", "epoch", "step", "loss", *metrics, "best")
        rows = [
            [
                line["stage"],
                line["epoch"] or "before",
                line["total"],
                f"{line['epoch_loss']:.3f}" if "epoch_loss" in line else "",
                *(f"{line['mean'][metric]:.3f}" for metric in metrics),
                "best" if line.get("best") else "",
            ]
            for line in evaluations
        ]
        print_table(columns, rows, right=range(1, len(columns) - 1))


def _facts(run: WorkspaceRun) -> dict[str, object]:
    info, settings = run.info, run.info.settings
    hardware = settings.hardware
    picture = run.curve.picture
    return {
        "name": info.name,
        "state": run.state,
        "spaces": ", ".join(run.spaces) or "none",
        "recipe": settings.recipe_name or "(of a program)",
        "sources": settings.sources,
        "source KBs": ", ".join(settings.source_kbs),
        "target KBs": ", ".join(settings.target_kbs),
        "documents": ", ".join(settings.docs) or "all",
        "seed": settings.seed,
        "began": settings.started,
        "steps": f"{info.steps:,}",
        "computed on": f"{hardware.device}, {hardware.precision}, "
        f"{counted(hardware.threads, 'thread')}, {counted(settings.processes, 'process')}",
        "folder": info.folder,
        "picture": picture if picture.is_file() else "none",
    }


COLUMNS = ("paper", "name", "summary", "follows")


def recipes(
    name: str = Argument("", help="Show all values of this recipe, or of this .toml file."),
    paper: str = Option(
        "", help="Only of this paper: amh, arboel, blink, joint, t-biencoder or kglink."
    ),
    table: str = Option("", help="List only recipes of this table, such as 2."),
    as_json: shared.AsJson = False,
) -> None:
    """List the recipes for `kglink finetune`, or show one whole."""
    from kglink.training.recipe_files import list_recipes, load_recipe

    if name and (paper or table):
        raise UsageError(
            "one recipe, and a paper or table to list", hint="Leave out the name, or the others."
        )
    if name:
        values = load_recipe(name).model_dump(mode="json")
        if as_json:
            print_json({"name": name, **values})
        else:
            # With all values written out it begins with no other recipe.
            values.pop("extends")
            say(*toml_lines(values))
        return
    found = list_recipes(paper, table)
    if as_json:
        print_json([recipe.as_json() for recipe in found])
    else:
        print_table(COLUMNS, found)


def toml_lines(values: Mapping[str, Any], section: str = "") -> Iterator[str]:
    """A recipe as its file would say it with every value written out."""
    plain = {
        key: value
        for key, value in values.items()
        if not isinstance(value, Mapping) or key.endswith("_settings")
    }
    for key, value in plain.items():
        if value is not None and value != "":
            yield f"{key} = {_toml(value)}"
    for key, value in values.items():
        if key not in plain:
            inner = f"{section}.{key}".lstrip(".")
            yield ""
            yield f"[{inner}]"
            yield from toml_lines(value, inner)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    # Of texts, numbers and truths JSON and TOML say the same.
    return json.dumps(value, ensure_ascii=False)


#: The tables' files by their endings.
ENDINGS: dict[str, TableFormat] = {"csv": "csv", "tex": "latex"}


def report(
    context: typer.Context,
    runs: list[str] = Argument(..., help="The runs, as `kglink runs` names them."),
    docs: list[str] | None = Option(
        None, help="Judge on these documents: a,b; by default those of the run."
    ),
    split: str | None = Option(
        None, help="train, dev or test; empty: all. Else test if all documents have it, or dev."
    ),
    output: Path | None = Option(None, "--output", "-o", help="The page; by default report.html."),
    map_entities: int = Option(
        MAP_ENTITIES, "--map", min=0, help="Largest number of entities on the map; 0: no map."
    ),
    plots: Path | None = Option(None, help="Also write each plot to this folder, as SVG and PNG."),
    tables: Path | None = Option(None, help="Also write tables to this folder (CSV, LaTeX)."),
    as_json: bool = Option(False, "--json", help="Print the report as JSON, and write no page."),
) -> None:
    """Write a web page about runs: figures, curves, errors, a map of the joint space.

    The page is one file and needs no network. The spaces of the runs are judged on the split test
    if all documents have one, else on dev. Several runs are compared with the first.
    """
    from kglink_cli.report_page.plots import plots_of

    if as_json and output is not None:
        raise UsageError("--json prints, and -o names a page", hint="Leave one of the two out.")
    with open_workspace(context) as workspace:
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
            drawn = list(plots_of(found))
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
    for name, table in made.items():
        for ending, form in ENDINGS.items():
            path = folder / f"{name}.{ending}"
            with whole_file(workspace, path) as out, redirect_stdout(out):
                write_tables([table._replace(title="", below=())], form)
    note("tables", f"{len(made)} in {folder}, as CSV and LaTeX")
