"""What the doors register: their commands."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from kglink.plugins import hookimpl

#: By the words of the command.
EXAMPLES: Mapping[str, tuple[str, str]] = {
    "serve": ("kglink serve", "KEY=... kglink serve --host 0.0.0.0 --token-from KEY --read-only"),
    "mcp": ("kglink --workspace shop mcp", "kglink mcp --http --port 8765"),
}


@hookimpl
def register_commands(app: typer.Typer) -> None:
    """Register the commands that serve a workspace."""
    from kglink_cli.commands import epilog
    from kglink_doors.commands import mcp, serve

    for command in (serve, mcp):
        name, panel = command.__name__, "Serve a workspace"
        app.command(name, rich_help_panel=panel, epilog=epilog(EXAMPLES[name]))(command)
