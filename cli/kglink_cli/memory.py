"""`kglink learn`, `kglink forget`, `kglink fit`: from annotated documents, without any training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from kglink.records import CORRECTIONS
from kglink_cli.build import ensure_space
from kglink_cli.console import counted, note, print_json, progress, say_cells
from kglink_cli.session import Rerank, session_of, split_names

if TYPE_CHECKING:
    from kglink.linking.scoring import Scoring
    from kglink.store.memory import Learnt

#: What `fit` fits, each with the values in which a change of it is seen.
_FITTED: Mapping[str, Callable[[Scoring], object]] = {
    "the weights of evidence": lambda one: (one.weights, one.weights_by_kb),
    "how sure answers are": lambda one: (
        one.calibration, one.calibration_by_kb, one.presence, one.presence_by_kb,
    ),
    "the judge of which words are mentions": lambda one: one.spans,
    "the threshold": lambda one: one.threshold,
}  # fmt: skip

Docs = Annotated[str, Argument(help="KBs of annotated documents, several separated by commas.")]
Split = Annotated[
    str, Option("--split", help="train, dev or test; else train, or all where there is none.")
]


def learn(
    context: typer.Context,
    docs: str = Argument(
        "",
        help="KBs of annotated documents, several separated by commas; none: list what was learnt.",
    ),
    split: Split = "",
    as_json: bool = Option(False, "--json", help="Print JSON."),
) -> None:
    """Remember what surfaces mean in annotated documents: the next link asks it.

    It takes seconds, and nothing is trained. Learning from the same documents again takes the
    place of what was remembered of them. What was learnt before is counted anew with them, so
    that the order in which documents are learnt changes nothing.
    """
    names = split_names(docs)
    with session_of(context).open() as workspace:
        if names:
            with progress() as tell:
                workspace.learn(names, split=split, progress=tell)
        learnt = workspace.store.learnt()
        revisions = {info.name: info.revision for info in workspace.store.kbs()}
    for one in learnt:
        if one.source in names and not one.surfaces and one.source != CORRECTIONS:
            note(
                "passed over",
                f"{one.source}: the same words mean one thing here and another there, as if "
                "annotated at random; memory holds nothing of it",
            )
        elif one.source in names:
            surfaces = counted(one.surfaces, "surface")
            note("learnt", f"what {surfaces} mean{'s' * (one.surfaces == 1)} in {one.source}")
    if as_json:
        print_json([{"docs": one.source, "surfaces": one.surfaces} for one in learnt])
    elif not names:
        for one in learnt:
            say_cells(one.source, counted(one.surfaces, "surface"))
        if not learnt:
            note("memory", "nothing was learnt yet: kglink learn DOCS")
    _tell_of_changed(learnt, revisions)


def _tell_of_changed(learnt: Sequence[Learnt], revisions: Mapping[str, int]) -> None:
    """Name the sources of memory that are not what they were when they were counted."""
    for one in learnt:
        if one.source not in revisions:
            note(
                "gone",
                f"{one.source} was removed: what was learnt from it stays as it was counted; "
                f"kglink forget {one.source} drops it",
            )
        elif one.revision != revisions[one.source]:
            note(
                "changed",
                f"{one.source} has been updated since it was learnt: kglink learn {one.source}",
            )


def forget(context: typer.Context, docs: Docs) -> None:
    """Forget what surfaces meant in the documents of a KB."""
    names = split_names(docs)
    with session_of(context).open() as workspace:
        with progress() as tell:
            workspace.forget(names, progress=tell)
        for name in names:
            note("forgotten", f"what surfaces mean in {name}")


def fit(
    context: typer.Context,
    docs: Docs,
    split: Split = "",
    rerank: Rerank = None,
    clustered: bool = Option(
        False, "--cluster", help="Choose how kglink link --cluster clusters, if at all."
    ),
    space: str | None = Option(None, help="Name of the space."),
    as_json: bool = Option(False, "--json", help="Print JSON."),
) -> None:
    """Fit how the space weighs evidence, and how sure it is, to annotated documents.

    Nothing is trained. New weights are kept only where they put more right answers first in
    documents that they were not fitted to. Where the documents are annotated whole, the default
    of kglink link --threshold becomes the one of the best F1. Links with --rerank have weights of
    their own. With --cluster nothing is weighed anew: the documents say whether mentions that are
    like each other help each other here, and with which settings.
    """
    from kglink.linking.fit_threshold import LinksKept
    from kglink.workspace.memory import scoring as scoring_now

    with session_of(context).open({"space.name": space, "link.rerank": rerank}) as workspace:
        ensure_space(workspace)
        if clustered:
            with progress() as tell:
                choice = workspace.fit_clusterer(split_names(docs), split=split, progress=tell)
            note("cluster", str(choice))
            if as_json:
                print_json(choice.model_dump(mode="json", exclude={"format", "fingerprint"}))
            return
        was = scoring_now(workspace)
        with progress() as tell:
            scoring = workspace.fit(split_names(docs), split=split, progress=tell)
        now = scoring_now(workspace)
    before, after = scoring.recall
    note(
        "fitted",
        f"on {counted(scoring.mentions, 'mention')}: R@1 {before:.3f} before, {after:.3f} after",
    )
    for label, is_changed in (("changed", True), ("unchanged", False)):
        parts = [name for name, part in _FITTED.items() if (part(was) != part(now)) == is_changed]
        if parts:
            note(label, ", ".join(parts))
    words = f"{scoring.threshold:g}: these documents are annotated in part and tell no better"
    if scoring.links is not None:
        right, wrong, wanted = scoring.links
        words = (
            f"{scoring.threshold:g} is the best for these documents: "
            f"{counted(right + wrong, 'link')}, {right:,} right and {wrong:,} wrong, of "
            f"{counted(wanted, 'mention')} with an answer"
        )
    note("threshold", words)
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
