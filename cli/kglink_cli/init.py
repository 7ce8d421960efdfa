"""`kglink init`: make a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kglink.config import CONFIG_FILE
from kglink.workspace import init_workspace
from kglink_cli.console import note
from kglink_cli.session import session_of


def init(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="The folder, made where it is missing; else that of --workspace, else this one.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make a workspace: a folder with kglink.toml, in which store and spaces will lie."""
    made = init_workspace(folder or session_of(context).workspace or Path())
    note("workspace", f"made {made / CONFIG_FILE}")
    note("next", "kglink add-kb NAME SOURCE")
