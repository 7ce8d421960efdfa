"""`kglink trust`: allow what the settings of a workspace ask for outside of it."""

from __future__ import annotations

from typing import Annotated

import typer

from kglink.config import CONFIG_FILE, load_settings
from kglink.errors import UsageError
from kglink.workspace import find_workspace
from kglink.workspace.trust import allow, asks_of, revoke
from kglink_cli.console import note
from kglink_cli.session import session_of


def trust(
    context: typer.Context,
    take_back: Annotated[
        bool, typer.Option("--revoke", help="Take back what was allowed here.")
    ] = False,
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
