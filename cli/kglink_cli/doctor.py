"""`kglink init`, `settings`, `trust` and `doctor`: the workspace itself."""

from __future__ import annotations

from pathlib import Path

import typer
from typer import Argument, Option

from kglink.config import CONFIG_FILE, all_settings, env_name, load_settings
from kglink.errors import UsageError
from kglink.workspace import find_workspace, init_workspace
from kglink.workspace.trust import allow, asks_of, not_allowed, revoke
from kglink_cli.console import note, print_json, print_table, say
from kglink_cli.session import session_of


def init(
    context: typer.Context,
    folder: Path | None = Argument(
        None,
        help="The folder, made where it is missing; else that of --workspace, else this one.",
        show_default=False,
    ),
) -> None:
    """Make a workspace: a folder with kglink.toml, in which store and spaces will lie."""
    made = init_workspace(folder or session_of(context).workspace or Path())
    note("workspace", f"made {made / CONFIG_FILE}")
    note("next", "kglink add-kb NAME SOURCE")


def settings(
    context: typer.Context, as_json: bool = Option(False, "--json", help="Print JSON.")
) -> None:
    """Show every setting, its value and origin (default, kglink.toml, variable)."""
    from kglink.plugins import load_registry

    folder = find_workspace(named=session_of(context).workspace)
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
    """Allow the workspace's kglink.toml, as it is now, to name what lies outside of the workspace.

    Addresses that texts are sent to, environment variables, models, databases and third-party
    plugins: such settings count once their file was allowed, and again when it has changed.
    """
    from kglink.plugins import load_registry

    folder = find_workspace(named=session_of(context).workspace)
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
    as_json: bool = Option(False, "--json", help="Print JSON."),
) -> None:
    """Check versions, device, model, store and spaces, and say how to mend what is not well."""
    from kglink.workspace.doctor import check

    session = session_of(context)
    if show_licences:
        with session.open() as workspace:
            rows = workspace.licences()
        if as_json:
            print_json([row._asdict() for row in rows])
        else:
            print_table(("what", "name", "licence", "source"), rows)
        return
    checks = check(session.workspace)
    if as_json:
        print_json([check._asdict() for check in checks])
    for one in checks if not as_json else ():
        say(f"{_SIGNS[one.state]:5}{one.what:12}{one.found}")
        if one.fix:
            say(f"{'':17}{one.fix}")
    if any(check.state == "bad" for check in checks):
        raise typer.Exit(1)
