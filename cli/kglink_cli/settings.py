"""`kglink settings`: every setting, its value, and where the value comes from."""

from __future__ import annotations

from typing import Annotated

import typer

from kglink.config import CONFIG_FILE, all_settings, env_name, load_settings
from kglink.workspace import find_workspace
from kglink.workspace.trust import not_allowed
from kglink_cli.console import note, print_json, print_table
from kglink_cli.session import session_of


def settings(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
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
