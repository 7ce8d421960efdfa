"""`kglink init`, `settings`, `trust`, `doctor` and `spaces`: the workspace and its spaces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.filesize import decimal
from typer import Argument, Option

from kglink.config import CONFIG_FILE, all_settings, env_name, load_settings
from kglink.errors import UsageError
from kglink.workspace import find_workspace, init_workspace
from kglink.workspace.folder import named_workspace
from kglink.workspace.trust import allow, asks_of, not_allowed, revoke
from kglink_cli import shared
from kglink_cli.console import counted, note, print_json, print_table, progress, say
from kglink_cli.session import open_workspace, split_names

if TYPE_CHECKING:
    from kglink.workspace import Workspace
    from kglink.workspace.spaces import SpaceSummary


def init(
    context: typer.Context,
    folder: Path | None = Argument(
        None,
        help="The folder, made if missing; by default that of --workspace or KGLINK_WORKSPACE, "
        "or this one.",
        show_default=False,
    ),
) -> None:
    """Make a workspace: a folder with a kglink.toml, for the store and the spaces."""
    made = init_workspace(named_workspace(folder or context.obj) or Path())
    note("workspace", f"made {made / CONFIG_FILE}")
    note("next", "kglink add-kb NAME SOURCE")


def settings(context: typer.Context, as_json: shared.AsJson = False) -> None:
    """Show every setting, its value and origin (default, kglink.toml, variable)."""
    from kglink.plugins import load_registry

    folder = find_workspace(named=context.obj)
    resolved = load_settings(folder / CONFIG_FILE if folder else None)
    for ask in not_allowed(folder, resolved, load_registry()) if folder else ():
        note("trust", f"not allowed: {ask}")
    if as_json:
        print_json(resolved.as_dict())
        return
    values = resolved.as_dict()["settings"]
    rows = []
    for name, _ in all_settings():
        section, _, key = name.partition(".")
        origin = resolved.origins.get(name, "default")
        rows.append([name, values[section][key], origin, env_name(name)])
    print_table(("setting", "value", "from", "variable"), rows)


def trust(
    context: typer.Context,
    take_back: bool = Option(False, "--revoke", help="Take back what was allowed here."),
) -> None:
    """Allow the settings of this kglink.toml that name something outside of the workspace.

    These are addresses, environment variables, models, databases and third-party plugins. They
    count only after you have allowed the file. If the file changes, allow it again.
    """
    from kglink.plugins import load_registry

    folder = find_workspace(named=context.obj)
    if folder is None:
        raise UsageError("there is no workspace here or above", hint="`kglink init` makes one.")
    config = folder / CONFIG_FILE
    if take_back:
        note("trust", f"{config} {'is no longer' if revoke(folder) else 'was not'} allowed")
        return
    resolved = load_settings(config, env={})
    for ask in asks_of(folder, resolved, load_registry()):
        note("allowed", str(ask))
    allow(folder, resolved.file_sha256)
    note("trust", f"{config} is allowed until it changes")


_SIGNS = {"ok": "ok", "note": "note", "bad": "BAD"}


def doctor(
    context: typer.Context,
    show_licences: bool = Option(
        False, "--licences", help="List the licence of every model, KB and dataset."
    ),
    as_json: shared.AsJson = False,
) -> None:
    """Check versions, device, model, store and spaces, and say how to solve each problem."""
    from kglink.workspace.doctor import check

    if show_licences:
        with open_workspace(context) as workspace:
            rows = workspace.licences()
        if as_json:
            print_json([row._asdict() for row in rows])
        else:
            print_table(("what", "name", "licence", "source"), rows)
        return
    checks = check(context.obj)
    if as_json:
        print_json([one._asdict() for one in checks])
    else:
        for one in checks:
            say(f"{_SIGNS[one.state]:5}{one.what:12}{one.found}")
            if one.fix:
                say(f"{'':17}{one.fix}")
    if any(one.state == "bad" for one in checks):
        raise typer.Exit(1)


# -------------------------------------------------------------------------------------- spaces
COLUMNS = ("", "name", "KBs", "entities", "rows", "model", "index", "size", "made", "current")
_CURRENT = {True: "yes", False: "no", None: "?"}


def spaces(
    context: typer.Context,
    name: str = Argument("", help="Show this space."),
    compare: tuple[str, str] | None = Option(
        None, help="Show the differences between two spaces.", metavar="A B"
    ),
    docs: list[str] | None = Option(
        None, help="With --compare: evaluate both on these documents: a,b"
    ),
    split: shared.JudgedSplit = None,
    delete: str = Option("", help="Remove this space.", metavar="NAME"),
    yes: shared.Yes = False,
    as_json: shared.AsJson = False,
) -> None:
    """List the spaces of this workspace, show one, compare two, or delete one."""
    if sum(map(bool, (name, compare, delete))) > 1:
        raise UsageError(
            "one space to show, two to compare or one to delete: not several of these",
            hint="One after the other, such as: kglink spaces --delete NAME",
        )
    if docs and not compare:
        raise UsageError("--docs goes with --compare A B", hint="Of one space: `kglink eval`.")
    with open_workspace(context) as workspace:
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
    from kglink.evaluation.measures.retrieval import AP_AT_1, NDCG_AT_10

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
                if figure == NDCG_AT_10 or (test is None and figure == AP_AT_1):
                    continue  # that is in --json alone; this is R@1
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
