"""`kglink overlap`: find the entities that KBs have in common."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kglink_cli.console import note, print_json, progress
from kglink_cli.session import session_of


def overlap(
    context: typer.Context,
    left: Annotated[str | None, typer.Argument(help="One KB; none: all pairs.")] = None,
    right: Annotated[str | None, typer.Argument(help="The other KB.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Least cosine of the descriptions, -1 to 1.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all overlaps as JSON.")] = False,
) -> None:
    """Find overlaps: entities that share a name and whose descriptions are alike."""
    with session_of(context).open({"overlap.threshold": threshold}) as workspace:
        done = 0
        with progress("comparing", None) as report:

            def advance(pairs: int) -> None:
                nonlocal done
                done += pairs
                report(done, done)

            reports = workspace.find_overlaps(left, right, progress=advance)
        if as_json:
            pairs = [(one.left, one.right) for one in reports]
            print_json(
                [
                    {
                        "left": str(found.left),
                        "right": str(found.right),
                        "probability": found.probability,
                        "evidence": dict(found.evidence),
                        "verdict": found.verdict,
                    }
                    for pair in pairs
                    for found in workspace.store.overlaps(*pair)
                ]
            )
            return
    if not reports:
        note("overlap", "there is no pair of KBs with entities yet")
    for one in reports:
        pair = f"{one.left}-{one.right}"
        sys.stdout.write(
            f"{pair}   {one.candidates:,} pairs share a name, {one.kept:,} kept at cosine "
            f"{workspace.settings.overlap.threshold:.2f}\n"
        )
