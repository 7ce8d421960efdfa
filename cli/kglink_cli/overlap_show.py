"""`kglink overlap show` lists pairs; `kglink overlap train` learns from verdicts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from kglink.errors import UsageError
from kglink.text.printable import printable
from kglink_cli.console import note, print_json, print_json_list, print_table, progress
from kglink_cli.overlap_lists import VERDICTS
from kglink_cli.overlap_records import evidence_text, overlap_record, two_kbs
from kglink_cli.session import session_of

if TYPE_CHECKING:
    from kglink.records import Overlap
    from kglink.workspace import Workspace


def show(
    context: typer.Context,
    left: Annotated[str | None, typer.Argument(help="One KB; none: all.")] = None,
    right: Annotated[str | None, typer.Argument(help="The other KB.")] = None,
    verdict: Annotated[
        str | None, typer.Option(help="Only these: correct, wrong, unclear or unjudged.")
    ] = None,
    stale: Annotated[
        bool,
        typer.Option("--stale", help="Only verdicts that a changed description puts in doubt."),
    ] = False,
    min_probability: Annotated[
        float, typer.Option(help="Only pairs at least this probable.", min=0, max=1)
    ] = 0.0,
    limit: Annotated[int, typer.Option(help="How many at most; 0: all.", min=0)] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List overlaps that were found, with what speaks for them."""
    if verdict is not None and verdict not in VERDICTS:
        raise UsageError(f"unknown verdict {verdict!r}", hint=f"There is: {', '.join(VERDICTS)}.")
    with session_of(context).open() as workspace:
        kbs = two_kbs(workspace, left, right) if left or right else ()
        found: Iterator[Overlap] = (
            one
            for one in workspace.store.overlaps(
                *kbs, min_probability=min_probability, stale=stale or None
            )
            if verdict in (None, one.verdict or "unjudged")
        )
        if as_json:
            print_json_list(map(overlap_record, found if not limit else islice(found, limit)))
            return
        shown = list(islice(found, limit or None))
        rows = _rows(workspace, shown)
        more = next(found, None) is not None
    if not shown:
        note("nothing", "there is no such overlap: kglink overlap finds them")
        return
    print_table(("probability", "left", "title", "right", "title", "verdict", "evidence"), rows)
    if more:
        note("more", f"these are the first {limit:,}; --limit shows more, --export writes all")


def train(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Learn from all verdicts how evidence is weighed; searches from now on use what was learnt."""
    with session_of(context).open() as workspace, progress() as tell:
        trained = workspace.train_overlap_model(progress=tell)
    pairs = [f"{left}-{right}" for left, right in trained.kbs]
    if as_json:
        model = trained.model
        print_json(
            {
                "correct": trained.correct,
                "wrong": trained.wrong,
                "rivals": trained.rivals,
                "kbs": [list(pair) for pair in trained.kbs],
                "bias": model.bias,
                "weights": {name: one.model_dump() for name, one in model.weights.items()},
            }
        )
        return
    rivals = f" and {trained.rivals:,} rivals of correct pairs" if trained.rivals else ""
    sys.stdout.write(
        f"trained on {trained.correct:,} correct and {trained.wrong:,} wrong pairs{rivals} of "
        f"{', '.join(pairs)}\n"
    )
    note("next", "kglink overlap weighs evidence with this model")


def _rows(workspace: Workspace, shown: list[Overlap]) -> list[list[object]]:
    ids = [entity for one in shown for entity in (one.left, one.right)]
    known = workspace.store.get_entities(ids)

    def row(one: Overlap) -> list[object]:
        titles = [
            printable(known[end].title) if end in known else "" for end in (one.left, one.right)
        ]
        verdict = f"{one.verdict} (stale)" if one.stale else one.verdict or ""
        return [
            f"{one.probability:.2f}", printable(str(one.left)), titles[0],
            printable(str(one.right)), titles[1],
            verdict, evidence_text(one),
        ]  # fmt: skip

    return [row(one) for one in shown]
