"""`kglink init`: make a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kglink.config import CONFIG_FILE
from kglink.workspace import init_workspace
from kglink_cli.console import note


def init(
    folder: Annotated[Path, typer.Argument(help="The folder; made where it is missing.")] = Path(),
) -> None:
    """Make a workspace: a folder with kglink.toml, in which store and spaces will lie."""
    made = init_workspace(folder)
    note("workspace", f"made {made / CONFIG_FILE}")
    note("next", "kglink add-kb NAME SOURCE")
