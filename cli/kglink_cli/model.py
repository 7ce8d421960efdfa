"""`kglink model`: the trained models of a space."""

from __future__ import annotations

from pathlib import Path

import typer
from typer import Argument, Option

from kglink_cli.console import note
from kglink_cli.session import session_of


def app() -> typer.Typer:
    """The commands under ``kglink model``."""
    model = typer.Typer(help="Give trained models to other tools.", no_args_is_help=True)
    model.command("export")(export)
    return model


def export(
    context: typer.Context,
    folder: Path = Argument(help="The new folder.", file_okay=False),
    space: str | None = Option(None, "--space", help="Name of the space."),
) -> None:
    """Write a space's trained towers and reranker as folders for sentence-transformers.

    `SentenceTransformer` and `CrossEncoder` open them with the same vectors and scores.
    """
    with session_of(context).open({"space.name": space}) as workspace:
        names = workspace.export_model(folder)
    for name in names:
        note("written", str(folder / name))
