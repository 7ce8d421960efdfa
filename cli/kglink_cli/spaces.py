"""`kglink spaces`: all spaces of a workspace, one of them, two beside each other, deleting one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.filesize import decimal
from typer import Argument, Option

from kglink.errors import UsageError
from kglink_cli.console import counted, note, print_json, print_table, progress, say
from kglink_cli.session import JudgedSplit, session_of, split_names

if TYPE_CHECKING:
    from kglink.workspace import Workspace
    from kglink.workspace.spaces import SpaceSummary

COLUMNS = ("", "name", "KBs", "entities", "rows", "model", "index", "size", "made", "current")
_CURRENT = {True: "yes", False: "no", None: "?"}


def spaces(
    context: typer.Context,
    name: str = Argument("", help="One space, whole."),
    compare: tuple[str, str] | None = Option(
        None, help="Say in what two spaces differ.", metavar="A B"
    ),
    docs: str | None = Option(None, help="With --compare: evaluate both on these documents: a,b"),
    split: JudgedSplit = None,
    delete: str = Option("", help="Remove this space.", metavar="NAME"),
    yes: bool = Option(False, "--yes", "-y", help="Do not ask."),
    as_json: bool = Option(False, "--json", help="Print JSON."),
) -> None:
    """List the spaces of this workspace, show one, compare two, or delete one."""
    if sum(map(bool, (name, compare, delete))) > 1:
        raise UsageError("one space to show, two to compare or one to delete: not several of these")
    if docs and not compare:
        raise UsageError("--docs goes with --compare A B", hint="Of one space: `kglink eval`.")
    with session_of(context).open() as workspace:
        if delete:
            _delete(workspace, delete, yes=yes, as_json=as_json)
        elif compare:
            _compare(workspace, compare, split_names(docs), split, as_json=as_json)
        elif name:
            _show(workspace, name, as_json=as_json)
        else:
            found = workspace.spaces()
            if as_json:
                print_json([space.as_json() for space in found])
            elif found:
                print_table(COLUMNS, [_row(space) for space in found], right=(3, 4, 7))
                for space in found:
                    if space.problem:
                        note(space.name, space.problem)
            else:
                note("empty", "no space yet: kglink build")


def _row(space: SpaceSummary) -> list[object]:
    return [
        "*" if space.used else "",
        space.name,
        ",".join(share.kb for share in space.kbs),
        space.entities,
        space.rows,
        (space.run or space.model) + (", static" if space.static else ""),
        str((space.index_settings or {}).get("factory", space.index)),
        decimal(space.bytes),
        space.created[:16].replace("T", " "),
        _CURRENT[space.current],
    ]


def _show(workspace: Workspace, name: str, *, as_json: bool) -> None:
    space = workspace.space_summary(name)
    if as_json:
        print_json(space.as_json())
        return
    settings = " ".join(f"{key}={value}" for key, value in (space.index_settings or {}).items())
    facts = {
        "name": f"{space.name}{', which the settings name' if space.used else ''}",
        "made": f"{space.created}, version {space.version}",
        "current": _CURRENT[space.current] + (f": {space.problem}" if space.problem else ""),
        "model": space.model + (", mentions read by a static model" if space.static else ""),
        "run": space.run or "none: untrained",
        "fingerprint": space.fingerprint,
        "dimension": space.dim,
        "rows": f"{space.rows:,} of {counted(space.entities, 'entity')}: {', '.join(space.kinds)}",
        "index": f"{space.index} {settings}".rstrip() + f", {decimal(space.index_bytes)}",
        "size": decimal(space.bytes),
    }
    for key, value in facts.items():
        say(f"{key:12} {value}")
    say("")
    rows = [[share.kb, share.revision, share.entities, share.rows] for share in space.kbs]
    print_table(("KB", "revision", "entities", "rows"), rows, right=(1, 2, 3))


def _compare(
    workspace: Workspace,
    pair: tuple[str, str],
    docs: tuple[str, ...],
    split: str | None,
    *,
    as_json: bool,
) -> None:
    from kglink.evaluation.measures.retrieval import AP_AT_1

    differences = workspace.compare_spaces(*pair)
    recalls = None
    if docs:
        with progress() as tell:
            recalls = workspace.compare_recalls(*pair, docs, split=split, progress=tell)
    if as_json:
        record: dict[str, object] = {
            "left": pair[0],
            "right": pair[1],
            "differences": [one._asdict() for one in differences],
        }
        if recalls:
            record["evaluation"] = recalls.as_json()
        print_json(record)
        return
    if differences:
        rows = [[one.what, _cell(one.left), _cell(one.right)] for one in differences]
        print_table(("", *pair), rows)
    else:
        note("same", f"{pair[0]} and {pair[1]} differ in nothing")
    if recalls:
        figures: list[list[object]] = []
        for pool, count in recalls.left.mentions.items():
            theirs, tests = recalls.right.of(pool), recalls.tests.get(pool, {})
            for figure, ours in recalls.left.of(pool).items():
                test = tests.get(figure)
                if test is None and figure == AP_AT_1:
                    continue  # it is R@1
                sure = [f"{test.p:.4f}", "yes" if test.is_significant() else "no"] if test else []
                other = theirs[figure]
                shown = [f"{ours:.3f}", f"{other:.3f}", f"{other - ours:+.3f}"]
                figures.append([pool, count, figure, *shown, *(sure or ["", ""])])
        say("", "Both on the same mentions; p: paired randomization test")
        columns = ("pool", "mentions", "figure", *pair, "difference", "p", "significant at .05")
        print_table(columns, figures, right=(1, 3, 4, 5, 6))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return _CURRENT[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


def _delete(workspace: Workspace, name: str, *, yes: bool, as_json: bool) -> None:
    space = workspace.space_summary(name)
    entities, kbs = counted(space.entities, "entity"), counted(len(space.kbs), "KB")
    held = f"{entities} of {kbs}, {decimal(space.bytes)}"
    if space.used:
        warning = (
            f"{name} is the space that the settings name: the next command that needs it builds "
            "it anew"
        )
        if not yes:
            raise UsageError(warning, hint=f"Remove it all the same: --delete {name} --yes")
        note("warning", warning)
    elif not yes:
        typer.confirm(f"Remove space {name} with {held}?", abort=True, err=True)
    workspace.delete_space(name)
    note("removed", f"space {name} with {held}")
    if as_json:
        print_json({"removed": name, "bytes": space.bytes})
