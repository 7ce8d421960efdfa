"""Options of several commands: how entities are found, and which texts are judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

Types = Annotated[
    list[str] | None,
    typer.Option("--type", help="Only entities of this type; may be repeated."),
]
Under = Annotated[
    list[str] | None,
    typer.Option(
        "--under", help="Of this entity's KB only its branch, such as doid:DOID:4; may be repeated."
    ),
]
NotUnder = Annotated[
    list[str] | None,
    typer.Option("--not-under", help="Nothing of this entity's branch; may be repeated."),
]
Rerank = Annotated[
    int | None,
    typer.Option(
        "--rerank",
        min=0,
        max=100,
        help="The trained reranker reads so many first candidates of each KB with the mention.",
    ),
]
JudgedSplit = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="train, dev, test; empty: all. Else dev, or all where no document says its split.",
        show_default=False,
    ),
]


def limit_flags(
    types: Sequence[str] | None, under: Sequence[str] | None, not_under: Sequence[str] | None
) -> dict[str, object]:
    """The settings that these options are."""
    return {
        "link.types": tuple(types or ()) or None,
        "link.under": tuple(under or ()) or None,
        "link.not_under": tuple(not_under or ()) or None,
    }
