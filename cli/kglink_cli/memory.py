"""`kglink learn`, `kglink forget`, `kglink fit`: from annotated documents, without any training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kglink_cli.build import ensure_space
from kglink_cli.console import counted, note, print_json, progress, say_cells
from kglink_cli.limits import Rerank
from kglink_cli.session import session_of, split_names

if TYPE_CHECKING:
    from kglink.linking.scoring import Scoring

Docs = Annotated[
    str, typer.Argument(help="KBs of annotated documents, several separated by commas.")
]
Split = Annotated[
    str,
    typer.Option("--split", help="train, dev or test; else train, or all where there is none."),
]


def learn(
    context: typer.Context,
    docs: Annotated[
        str,
        typer.Argument(
            help="KBs of annotated documents, several separated by commas; none: list what was "
            "learnt."
        ),
    ] = "",
    split: Split = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remember what surfaces mean in annotated documents: the next link asks it.

    It takes seconds, and nothing is trained. Learning from the same documents again takes the
    place of what was remembered of them.
    """
    with session_of(context).open() as workspace:
        for name in split_names(docs):
            told = workspace.learn(name, split=split)
            note("learnt", f"what {counted(told, 'surface')} mean{'s' * (told == 1)} in {name}")
        sources = workspace.store.memory_sources()
    if as_json:
        print_json([{"docs": name, "surfaces": count} for name, count in sources.items()])
    elif not docs:
        for name, count in sources.items():
            say_cells(name, counted(count, "surface"))
        if not sources:
            note("memory", "nothing was learnt yet: kglink learn DOCS")


def forget(context: typer.Context, docs: Docs) -> None:
    """Forget what surfaces meant in the documents of a KB."""
    with session_of(context).open() as workspace:
        for name in split_names(docs):
            workspace.forget(name)
            note("forgotten", f"what surfaces mean in {name}")


def fit(
    context: typer.Context,
    docs: Docs,
    split: Split = "",
    rerank: Rerank = None,
    clustered: Annotated[
        bool,
        typer.Option("--cluster", help="Choose how kglink link --cluster clusters, if at all."),
    ] = False,
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit how the space weighs evidence, and how sure it is, to annotated documents.

    Nothing is trained. New weights are kept only where they put more right answers first in
    documents that they were not fitted to. Where the documents are annotated whole, the default
    of kglink link --threshold becomes the one of the best F1. Links with --rerank have weights of
    their own. With --cluster nothing is weighed anew: the documents say whether mentions that are
    like each other help each other here, and with which settings.
    """
    with session_of(context).open({"space.name": space, "link.rerank": rerank}) as workspace:
        ensure_space(workspace)
        if clustered:
            with progress() as tell:
                choice = workspace.fit_clusterer(split_names(docs), split=split, progress=tell)
            note("cluster", str(choice))
            if as_json:
                print_json(choice.model_dump(mode="json", exclude={"format", "fingerprint"}))
            return
        with progress() as tell:
            scoring = workspace.fit(split_names(docs), split=split, progress=tell)
    from kglink.linking.fit_threshold import LinksKept

    before, after = scoring.recall
    note(
        "fitted",
        f"on {counted(scoring.mentions, 'mention')}: R@1 {before:.3f} before, {after:.3f} after"
        + ("" if after > before else "; the weights stay as they were"),
    )
    note("threshold", _threshold(scoring))
    weights = dict(scoring.weights.by_kind)
    if as_json:
        print_json(
            {
                "mentions": scoring.mentions,
                "before": before,
                "after": after,
                "weights": weights,
                "threshold": scoring.threshold,
                "links": scoring.links and LinksKept(*scoring.links)._asdict(),
            }
        )
    else:
        for name, weight in weights.items():
            say_cells(name, f"{weight:.3f}")


def _threshold(scoring: Scoring) -> str:
    if scoring.links is None:
        return f"{scoring.threshold:g}: these documents are annotated in part and tell no better"
    right, wrong, wanted = scoring.links
    return (
        f"{scoring.threshold:g} is the best for these documents: {counted(right + wrong, 'link')}, "
        f"{right:,} right and {wrong:,} wrong, of {counted(wanted, 'mention')} with an answer"
    )
