"""Measuring a space on annotated documents, and on accepted overlaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kglink.records import OnProgress

if TYPE_CHECKING:
    from kglink.evaluation.overlaps import OverlapFigures
    from kglink.evaluation.rankings import RankedMention
    from kglink.evaluation.report import RetrievalReport
    from kglink.workspace.opened import Opened


def evaluate(
    opened: Opened,
    docs: str | Sequence[str],
    *,
    split: str = "dev",
    kbs: Sequence[str] = (),
    ks: Sequence[int] = (1, 5),
    counterparts: bool = False,
    domains: bool = False,
    seen_in: str = "auto",
    progress: OnProgress = lambda _: None,
    each: Callable[[RankedMention], None] = lambda mention: None,
) -> RetrievalReport:
    """Retrieval on the annotated documents of one or more KBs, their mentions' places given.

    With ``counterparts`` a gold's counterpart in another KB is right in joint rankings;
    ``domains`` adds figures by type of entity. ``seen_in`` names documents that were learnt
    from, as ``kglink eval --seen-in`` does. ``each`` is told of every mention.
    """
    from kglink.evaluation.retrieval import Question
    from kglink.workspace.evaluation import evaluate

    names = (docs,) if isinstance(docs, str) else tuple(docs)
    question = Question(
        names, split, tuple(kbs), tuple(ks), counterparts, domains=domains, seen_in=seen_in
    )
    return evaluate(opened, question, progress=progress, each=each)


def evaluate_overlaps(
    opened: Opened, kbs: Sequence[str] = (), *, progress: OnProgress = lambda _: None
) -> list[OverlapFigures]:
    """How near to each other the accepted overlaps of these KBs, or of all, are."""
    from kglink.evaluation.overlaps import evaluate_overlaps

    space = opened.space()
    names = opened.linked_kbs(space, kbs)
    return evaluate_overlaps(space, opened.store, names, progress=progress)
