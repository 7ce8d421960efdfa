"""Options of several commands: how entities are found, and which texts are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from kglink.errors import UsageError

Types = Annotated[
    list[str] | None, typer.Option("--type", help="Only entities of this type; may be repeated.")
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
        help="First candidates of each KB that the trained reranker reads with the mention.",
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


def refuse_ignored(why: str, options: Mapping[str, object]) -> None:
    """Refuse options that are given and would change nothing; ``why`` says beside what."""
    if named := [name for name, value in options.items() if value]:
        raise UsageError(
            f"{' and '.join(named)} would change nothing {why}",
            hint=f"Leave out {'them' if named[1:] else named[0]}.",
        )


def check_rerank(rerank: int | None, by: str | None) -> None:
    """Refuse a trained reranker where one kind of evidence alone ranks."""
    if by not in (None, "all"):
        refuse_ignored(f"beside --by {by}, which ranks alone", {"--rerank": rerank})
