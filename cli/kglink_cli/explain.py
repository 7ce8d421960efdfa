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
    link, candidates = one.link, one.link.candidates
    say(f"{link.surface}  characters {link.start} to {link.end}")
    kinds = [
        kind
        for kind in dict.fromkeys(kind for item in candidates for kind in item.evidence)
        if any(item.evidence.get(kind) for item in candidates)
    ]
    rows = [
        [kind, *(_cell(item.evidence.get(kind, 0), item.parts.get(kind, 0)) for item in candidates)]
        for kind in kinds
    ]
    rows.append(["score", *(_cell(item.score, 0) for item in candidates)])
    rows.append(["title", *(item.title for item in candidates)])
    if candidates:
        print_table(["evidence", *(str(item.id) for item in candidates)], rows)
    say(*verdict(one))


def _cell(value: float, adds: float) -> str:
    shown = f"{round(value, 2) + 0.0:.2f}"  # no "-0.00"
    return f"{shown} {adds:+.2f}" if adds else shown


def verdict(one: Explanation) -> list[str]:
    """The answer, what decided, and what would have to change, a line each."""
    link = one.link
    if not link.candidates:
        return ["answer   NIL: no entity is like that"]
    first = link.candidates[0]
    sure = f"{one.probability:.2f} probable, threshold {one.threshold:.2f}"
    answer = (
        str(link.chosen.id)
        if link.chosen
        else f"NIL, {link.confidence:.2f} sure: {first.id} is not likely enough"
    )
    lines = [f"answer   {answer} ({sure})"]
    if not one.found:
        lines.append("given    `kglink link` passes over these words: answered as if it were told")
    if told := one.decided():
        second = link.candidates[1]
        parts = ", ".join(f"{kind} {by:+.2f}" for kind, by in told)
        lines.append(f"decided  against {second.id}: {parts}")
    lines += [
        f"change   {change.candidate.id} would be as good with {change.kind} {change.wanted:.2f} "
        f"(it is {change.value:.2f})"
        for change in one.changes()
    ]
    if not link.chosen:
        lines.append(f"change   a threshold of {one.probability:.2f} would link it")
    return lines
