"""`kglink explain`: why a mention was linked as it was."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kglink.errors import UsageError
from kglink_cli.build import ensure_space
from kglink_cli.console import note, print_json, print_table, say
from kglink_cli.limits import Rerank
from kglink_cli.session import session_of, split_names, tell_reranker, tell_stages

if TYPE_CHECKING:
    from kglink.linking.explain import Explanation

_SPAN = re.compile(r"(\d+):(\d+)")


def explain(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="The text, or - for standard input.")],
    surface: Annotated[
        str, typer.Option("--surface", "-s", help="The mention's words, wherever they stand.")
    ] = "",
    span: Annotated[
        str, typer.Option("--span", help="The mention's characters: START:END, from 0.")
    ] = "",
    kb: Annotated[str | None, typer.Option("--kb", help="Only these KBs: a,b")] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", "-k", help="Candidates for each mention.")
    ] = None,
    rerank: Rerank = None,
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show why a mention is linked as it is: each candidate by its evidence.

    A cell holds the value of the evidence, and what it adds to the score: the value times its
    weight. Below stand what decided, and what would have to change.
    """
    if surface and span:
        raise UsageError("--surface and --span both say where the mention is", hint="Give one.")
    place = _SPAN.fullmatch(span)
    if span and not place:
        raise UsageError(f"--span {span!r} is no place", hint="Write START:END, such as 3:9.")
    if os.path.isfile(text):  # noqa: PTH113 - of a text that is no path it says no
        raise UsageError(f"{text!r} is a file, not a text", hint=f"kglink explain - < {text}")
    words = sys.stdin.read() if text == "-" else text
    flags = {"link.top_k": top_k, "link.rerank": rerank, "space.name": space}
    with session_of(context).open(flags) as workspace:
        ensure_space(workspace)
        tell_reranker(workspace)
        found = workspace.explain(
            words,
            surface=surface,
            span=(int(place[1]), int(place[2])) if place else None,
            kbs=split_names(kb),
        )
        tell_stages(workspace)
    if as_json:
        print_json([one.as_json() for one in found])
        return
    for number, one in enumerate(found):
        if number:
            say("")
        _print(one)
    if not found:
        note("nothing", "no mention was found; --surface or --span says where it is")


def _print(one: Explanation) -> None:
    link = one.link
    say(f"{link.surface}  characters {link.start} to {link.end}")
    if link.candidates:
        columns, rows = one.evidence()
        print_table(columns, rows)
    say(*one.verdict())
