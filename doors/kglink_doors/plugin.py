"""What the doors register: their commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import typer

from kglink.plugins import hookimpl
from kglink_doors import mcp_server

#: By the words of the command.
EXAMPLES: Mapping[str, tuple[str, str]] = {
    "mcp": mcp_server.EXAMPLES,
}


@hookimpl
def register_commands(app: typer.Typer) -> None:
    """Register the commands that serve a workspace."""
    from kglink_cli.examples import epilog

    commands: dict[str, Callable[..., None]] = {
        "mcp": mcp_server.mcp,
    }
    for name, command in commands.items():
        panel = "Serve a workspace"
        app.command(name, rich_help_panel=panel, epilog=epilog(EXAMPLES[name]))(command)
