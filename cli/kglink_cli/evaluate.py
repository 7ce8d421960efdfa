"""`kglink eval`: recall of retrieval on annotated documents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kglink.errors import UsageError
from kglink_cli.build import ensure_space
from kglink_cli.console import counted, print_json, print_table, progress
from kglink_cli.session import session_of, split_names

if TYPE_CHECKING:
    from kglink.evaluation.recall import RecallReport


def evaluate(
    context: typer.Context,
    docs: Annotated[str, typer.Option("--docs", help="The KB that holds the documents.")],
    split: Annotated[str, typer.Option("--split", help="train, dev, test; empty: all.")] = "dev",
    kb: Annotated[str | None, typer.Option("--kb", help="Only these KBs: a,b")] = None,
    k: Annotated[str, typer.Option("--k", help="Ranks to report.")] = "1,5,32",
    counterparts: Annotated[
        bool,
        typer.Option(
            "--counterparts",
            help="In the joint rankings a gold's counterpart in another KB is right as well.",
        ),
    ] = False,
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how often a right entity is among the first k, the mentions' places given."""
    ranks = _ranks(k)
    with session_of(context).open({"space.name": space}) as workspace:
        documents = workspace.store.kb(docs).documents
        ensure_space(workspace)
        done = 0
        with progress("documents", documents) as report:

            def advance(documents: int) -> None:
                nonlocal done
                done += documents
                report(done, done)

            result = workspace.evaluate(
                docs,
                split=split,
                kbs=split_names(kb),
                ks=ranks,
                counterparts=counterparts,
                progress=advance,
            )
        used = {
            "docs": docs,
            "split": split,
            "space": workspace.settings.space.name,
            "kbs": list(workspace.linked_kbs(workspace.space(), split_names(kb))),
            "counterparts": counterparts,
            "mentions_with_counterparts": result.with_counterparts,
        }
    if as_json:
        from kglink.evaluation.recall import JSON_KEYS

        counts = {JSON_KEYS.get(pool, pool): result.mentions[pool] for pool in result.pools()}
        print_json({**used, "mentions": counts, "metrics": result.as_json()})
    else:
        print_recall(result)


def print_recall(result: RecallReport) -> None:
    """A row for each KB, then all in one list; judged: less the KBs without gold."""
    columns = ("pool", "mentions", *(f"R@{rank}" for rank in result.ks))
    rows = [
        [pool, result.mentions[pool], *(f"{share:.3f}" for share in result.recall(pool).values())]
        for pool in result.pools()
    ]
    print_table(columns, rows, right=range(1, len(columns)))
    if result.with_counterparts is not None:
        sys.stdout.write(
            "\nIn the joint rankings a counterpart in another KB is right as well: "
            f"{counted(result.with_counterparts, 'mention')} with one.\n"
        )


def _ranks(text: str) -> tuple[int, ...]:
    try:
        ranks = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise UsageError(f"--k {text!r} is not a list of numbers", hint="--k 1,5,32") from error
    if ranks[0] < 1:
        raise UsageError(f"--k {text!r}: ranks begin at 1")
    return ranks
