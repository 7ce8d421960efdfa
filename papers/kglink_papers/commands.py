"""`kglink reproduce` makes a table of a paper; `kglink convert` reads BLINK's weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kglink.errors import UsageError
from kglink.workspace.folder import MAP_ENTITIES
from kglink.workspace.outputs import checked_output
from kglink_cli.console import (
    check_format,
    counted,
    display,
    note,
    print_json,
    print_table,
    progress,
    say,
    write_tables,
)
from kglink_cli.finetune import read_changes
from kglink_cli.interrupts import go_on_by
from kglink_cli.runs import write_page
from kglink_cli.session import open_workspace, refuse_ignored, split_names

if TYPE_CHECKING:
    from kglink.workspace import Workspace
    from kglink_papers.reproduce import Reproducer
    from kglink_papers.table import ReproducedTable

EXAMPLES = {
    "reproduce": (
        "kglink reproduce amh/table-2 --data zeshel --dry-run",
        "kglink reproduce joint/table-3-disease --data disease --rows zero-shot,T,TO --seeds 2",
    ),
    "convert": (
        "kglink convert biencoder_wiki_large.bin blink --like google-bert/bert-large-uncased",
        "kglink convert biencoder.bin blink-base --like bert --json",
    ),
}


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A table, such as amh/table-2; else list all.")] = "",
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder with the data, in the layout of their release."),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            "--rows",
            help="Run only these rows, by name or by part of a name: T,TO or 'DUAL, Hard-ID'; "
            "may be repeated.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Runs of each row; by default 3.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a value of all recipes, such as train.epochs=1."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            help="Also write a web page: the table, and what the runs of the first seed learnt.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be run and how long it takes.")
    ] = False,
    form: Annotated[
        str, typer.Option("--format", "-f", help="table, tsv, csv, md, latex or json.")
    ] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a table of a paper: run its recipes, judge them as the paper does, compare.

    The command adds missing data, and skips runs that are done: you may stop it at any time and
    start it again. The table shows each figure beside the paper's: mean and standard deviation
    over seeds, 95% interval, and a mark if the difference to the baseline is more than chance.
    Notes below the table say what differs from the paper.
    """
    as_json = as_json or form == "json"
    shown = "table" if as_json else check_format(form)
    if not name:
        _list(as_json=as_json, options=(data, rows, seeds, changes, report, dry_run or None))
        return
    from kglink_cli.finetune import finetune_news
    from kglink_papers.protocols import find_protocol
    from kglink_papers.reproduce import Reproducer
    from kglink_papers.shown import tables_of

    protocol = find_protocol(name)
    # Names of rows are taken as they are, for many have a comma; other values are lists.
    known = {row.name for row in protocol.rows}
    given = [part for one in rows or () for part in ((one,) if one in known else split_names(one))]
    with open_workspace(context, create=True) as workspace:
        asked = Reproducer(workspace, protocol, given, seeds or 3, read_changes(changes or []))
        if dry_run:
            refuse_ignored(
                "beside --dry-run",
                {"--report": report, "--format": not as_json and shown != "table"},
            )
            _print_plan(asked, data, as_json=as_json)
            return
        if report is not None:
            if all(model.row.untrained for model in asked.models().values()):
                raise UsageError(
                    "no row is trained, and a report is of runs",
                    hint="Leave --report out, or name other --rows.",
                )
            checked_output(workspace, report)
        if protocol.adapted:
            note("adapted", f"{name} is not {protocol.table.source} itself: other data and models")
        go_on_by("the same command goes on where it was")
        with display() as show:
            done = asked.run(data, finetune_news(show), note)
        if as_json:
            print_json(done.as_json())
        else:
            write_tables(tables_of(done.as_json()), shown)
        if report is not None:
            _write_report(workspace, done, report)


def _list(*, as_json: bool, options: tuple[object, ...]) -> None:
    from kglink_papers.protocols import protocols

    if any(one is not None for one in options):
        raise UsageError("which table?", hint="`kglink reproduce` lists them: blink/table-1, ...")
    found = [
        {
            "name": one.name,
            "rows": len(one.rows_to_run),
            "data": one.data.title,
            "adapted": bool(one.adapted),
            "title": one.title,
        }
        for one in protocols().values()
    ]
    if as_json:
        print_json(found)
        return
    rows = [[one["name"], one["rows"], one["data"], one["title"]] for one in found]
    print_table(("name", "rows", "data", "table"), rows, right=(1,))


def _print_plan(asked: Reproducer, data: Path | None, *, as_json: bool) -> None:
    """Every run with its state, its steps, and how long those before it took."""
    from kglink.workspace.training import runs

    planned = asked.plan(data)
    trained = {run.info.name: run.info for run in runs(asked.opened)}
    paces = [
        info.report.seconds / info.steps
        for info in (trained.get(one.name) for one in planned)
        if info is not None and info.report is not None and info.steps
    ]
    pace = sum(paces) / len(paces) if paces else None
    states: list[dict[str, object]] = []
    rows, left = [], []
    for run in planned:
        seconds = None
        if pace is not None and run.steps is not None and run.state != "done":
            seconds = round(run.steps * pace)
        states.append({
            "run": run.name, "recipe": run.recipe, "state": run.state,
            "learns_from": list(run.docs), "steps": run.steps, "seconds": seconds,
        })  # fmt: skip
        steps = "-" if run.steps is None else f"{run.steps:,}"
        minutes = "-" if seconds is None else f"{seconds / 60:,.0f}"
        rows.append([run.name, run.recipe, run.state, steps, minutes])
        if run.state in ("new", "stopped"):
            left.append(seconds)
    if as_json:
        print_json(states)
        return
    print_table(("run", "recipe", "state", "steps", "minutes"), rows, right=(3, 4))
    known = [one for one in left if one is not None]
    if left and len(known) == len(left):
        say("", f"About {sum(known) / 3600:,.1f} hours of training for what is not done yet, as "
                "fast as the runs that are; encoding and judging come on top.")  # fmt: skip
    elif left:
        say("", f"{counted(len(left), 'run')} to do. How long they take is known once one is done: "
                "--seeds 1 --rows ROW does the first.")  # fmt: skip


def _write_report(workspace: Workspace, done: ReproducedTable, path: Path) -> None:
    """The page of the runs of the first seed, judged on what the table is of."""
    from kglink_papers.shown import section_of

    runs = list(dict.fromkeys(names[0] for names in done.runs.values()))
    with progress() as tell:
        found = workspace.report(
            runs, done.docs, split="test", map_entities=MAP_ENTITIES, progress=tell
        )
    shape = done.as_json()
    what = "a table of a paper on other data" if shape["adapted"] else "ours and the paper's"
    write_page(
        workspace,
        {**found, "reproduced": shape},
        path,
        f"{shape['protocol']}: {what}",
        [("reproduced", "The table", section_of(shape))],
    )


def convert(
    weights: Annotated[
        Path, typer.Argument(help="BLINK's bi-encoder or cross-encoder, such as one .bin file.")
    ],
    folder: Annotated[Path, typer.Argument(help="The new model folder.")],
    like: Annotated[
        str,
        typer.Option(
            "--like",
            help="The BERT model that it was trained from, for configuration and tokenizer: a "
            "folder or a hub name.",
        ),
    ] = "google-bert/bert-large-uncased",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Turn BLINK's released weights into a model folder, to fine-tune from or to search with.

    A cross-encoder becomes a reranker with BLINK's padding between mention and candidate; name it
    as `reranker.base` to use it in tables of the papers.

    The file is a pickle, which is a program. It is read without being run, so it can do no harm.
    """
    from kglink_papers.convert import convert_blink

    done = convert_blink(weights, folder, like)
    if as_json:
        print_json(done.as_json())
        return
    say(f"{done.folder}: {done.tensors} tensors, model {done.fingerprint}")
    if done.unused:
        shown = ", ".join(done.unused[:3]) + (", ..." if len(done.unused) > 3 else "")
        note("unused", f"{len(done.unused)} tensors that the towers lack: {shown}")
    what = (
        "reproduce joint/table-3 --set reranker"
        if done.reranker
        else "finetune --recipe joint/tos --set model"
    )
    note("next", f"kglink {what}.base={done.folder}")
