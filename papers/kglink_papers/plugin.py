"""What the papers register: their recipes, `kglink reproduce` and `kglink convert`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import typer

from kglink.plugins import hookimpl


@hookimpl
def register_recipes(register: Callable[[str, Mapping[str, Any]], None]) -> None:
    """Register the recipes: a file for each paper, a table for each recipe."""
    for file in (resources.files("kglink_papers") / "recipes").iterdir():
        for name, values in tomllib.loads(file.read_text("utf-8")).items():
            register(f"{file.name.removesuffix('.toml')}/{name}", values)


@hookimpl
def register_commands(app: typer.Typer) -> None:
    """Register the commands, beside those that train models."""
    from kglink_cli.commands import epilog
    from kglink_papers.commands import EXAMPLES, convert, reproduce

    for command in (reproduce, convert):
        name, panel = command.__name__, "Train models"
        app.command(name, rich_help_panel=panel, epilog=epilog(EXAMPLES[name]))(command)
