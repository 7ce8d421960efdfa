"""`kglink distill`: a space for which a static model reads, for linking archives on CPUs."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from kglink_cli.console import note, print_json, progress
from kglink_cli.session import session_of


def distill(
    context: typer.Context,
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
    into: Annotated[
        str, typer.Option("--into", help="Name of the new space; a distilled one is replaced.")
    ] = "static",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a space for which a static model reads mentions, many times faster on a CPU.

    The static model has one vector for each token and no transformer. It learns from the vectors
    that the space has; these are shared and not made anew. Likeness: the mean cosine to the
    vectors of names, and of longer texts, that were held out. Then: kglink link --space NAME.
    """
    began = time.monotonic()
    with session_of(context).open({"space.name": space}) as workspace:
        source = workspace.settings.space.name
        with progress() as tell:
            made = workspace.distill(into, progress=tell)
    student = made.student
    if as_json:
        print_json(
            {
                "space": made.name,
                "from": source,
                "tokens": len(student.table),
                "names": student.names,
                "texts": student.texts,
                "names_like": student.names_like,
                "texts_like": student.texts_like,
            }
        )
        return
    likes = (("names", student.names_like), ("texts", student.texts_like))
    told = ", ".join(f"{what} {like:.3f}" for what, like in likes if like is not None)
    note(
        "space",
        f"{made.name}: the vectors of {source}, read by {len(student.table):,} tokens that learnt "
        f"from {student.names:,} names and {student.texts:,} texts in "
        f"{time.monotonic() - began:.1f} s",
    )
    if told:
        note("likeness", f"{told} (1: as the model of {source} itself)")
