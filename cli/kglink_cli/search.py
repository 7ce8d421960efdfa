"""`kglink search`: the entities that words name or describe."""

from __future__ import annotations

from typing import Annotated

import typer

from kglink.workspace.shapes import found_shape
from kglink_cli.build import ensure_space, tell_names_alone
from kglink_cli.console import note, print_json, print_table
from kglink_cli.limits import NotUnder, Types, Under, limit_flags
from kglink_cli.session import session_of, split_names


def search(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="A name, or a description in words.")],
    kb: Annotated[str | None, typer.Option("--kb", help="Only these KBs: a,b")] = None,
    types: Types = None,
    under: Under = None,
    not_under: NotUnder = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="How many.", min=1)] = 10,
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find entities that a text names or describes, in all KBs."""
    flags = {"space.name": space, **limit_flags(types, under, not_under)}
    with session_of(context).open(flags) as workspace:
        ensure_space(workspace)
        published, kbs = workspace.space(), split_names(kb)
        tell_names_alone(workspace, published, published.kbs(kbs))
        found = workspace.search(text, k=top_k, kbs=kbs)
        facts = workspace.store.get_entities([one.id for one in found])
    if as_json:
        print_json(found_shape(found, facts))
    elif found:
        described = {key: entity.description for key, entity in facts.items()}
        rows = [
            [f"{one.score:.2f}", str(one.id), one.title, described.get(one.id, "")[:100]]
            for one in found
        ]
        print_table(("score", "entity", "title", "description"), rows)
    else:
        note("nothing", "no entity is like that")
