"""`Workspace.evaluate` and its like: what is asked of documents and overlaps. `judging` answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kglink.records import OnProgress
from kglink.workspace.build import build_if_stale
from kglink.workspace.named import named

if TYPE_CHECKING:
    from kglink.evaluation.measures.end_to_end import Answer, EndToEndReport, JudgedText
    from kglink.evaluation.measures.overlaps import OverlapFigures, OverlapTest
    from kglink.evaluation.measures.retrieval import RetrievalReport
    from kglink.evaluation.rankings import RankedMention
    from kglink.workspace.opened import Opened


def evaluate(
    opened: Opened,
    docs: str | Sequence[str],
    *,
    split: str | None = None,
    kbs: str | Sequence[str] = (),
    ks: Sequence[int] = (1, 5),
    counterparts: bool = False,
    domains: bool = False,
    seen_in: str = "auto",
    candidates: str | Path | None = None,
    progress: OnProgress = lambda _: None,
    each: Callable[[RankedMention], None] = lambda mention: None,
) -> RetrievalReport:
    """Retrieval on the annotated documents of one or more KBs, their mentions' places given.

    Of no split: those of the split dev, or all where no document says of which split it is. With
    ``counterparts`` a gold's counterpart in another KB is right in joint rankings; ``domains``
    adds figures by type of entity. ``seen_in`` names documents that were learnt from, as
    ``kglink eval --seen-in`` does. ``candidates`` names a file of `write_candidates`, or of
    ZESHEL's lists, that is judged instead of what the space finds. ``each`` is told of every
    mention. A space that is missing or older than the store is built first.

    >>> report = workspace.evaluate("notes", kbs=["birds"])
    >>> report.recall("birds")
    {'R@1': 1.0, 'R@5': 1.0}
    """
    from kglink.evaluation.retrieval import Question, judged_split
    from kglink.workspace.judging import evaluate

    names = named(docs)
    split = judged_split(opened.store, names, split)
    question = Question(
        *(names, split, named(kbs), tuple(ks), counterparts),
        domains=domains,
        seen_in=seen_in,
        candidates=None if candidates is None else Path(candidates),
    )
    if question.candidates is None:
        build_if_stale(opened)
    return evaluate(opened, question, progress=progress, each=each)


def evaluate_end_to_end(
    opened: Opened,
    docs: str | Sequence[str],
    *,
    split: str | None = None,
    kbs: str | Sequence[str] = (),
    counterparts: bool = False,
    complete: bool | None = None,
    per_kb: bool = True,
    predictions: str | Path | None = None,
    progress: OnProgress = lambda _: None,
    each: Callable[[JudgedText, Sequence[Answer]], None] = lambda text, answers: None,
) -> EndToEndReport:
    """What a user gets who links the annotated texts without saying where mentions are.

    With ``counterparts`` a gold's counterpart in another KB is right, except where a KB is
    judged alone (``per_kb``). Precision is known where all mentions are annotated (``complete``;
    None: as it seems). ``predictions`` names a file, as ``kglink link --format jsonl`` writes it,
    that is judged instead. ``each`` is called for every text.

    >>> report = workspace.evaluate_end_to_end("notes", kbs=["birds"])
    >>> report.joint.links["strict"].micro.recall
    1.0
    """
    from kglink.evaluation.retrieval import judged_split
    from kglink.workspace.judging import EndToEnd, evaluate_end_to_end

    names = named(docs)
    question = EndToEnd(
        docs=names,
        split=judged_split(opened.store, names, split),
        kbs=named(kbs),
        counterparts=counterparts,
        complete=complete,
        per_kb=per_kb,
        predictions=None if predictions is None else Path(predictions),
    )
    if predictions is None:
        build_if_stale(opened)
    return evaluate_end_to_end(opened, question, progress=progress, each=each)


def evaluate_overlaps(
    opened: Opened, kbs: str | Sequence[str] = (), *, progress: OnProgress = lambda _: None
) -> list[OverlapFigures]:
    """How near to each other the accepted overlaps of these KBs, or of all, are."""
    from kglink.evaluation.measures.overlaps import evaluate_overlaps

    build_if_stale(opened)
    space = opened.space()
    names = opened.linked_kbs(space, kbs)
    return evaluate_overlaps(space, opened.store, names, progress=progress)


def overlap_significance(
    opened: Opened, other: str, kbs: str | Sequence[str] = (), *, seed: int = 0
) -> list[OverlapTest]:
    """Whether MRR and ACS of the space differ from those of another by more than chance.

    A paired randomization test over the overlaps that both hold; the other space is on the right.
    """
    from kglink.evaluation.measures.overlaps import compare_overlaps

    build_if_stale(opened)
    there = opened.with_settings({"space.name": other}).space()
    space = opened.space()
    names = opened.linked_kbs(space, kbs)
    return compare_overlaps((space, there), opened.store, names, seed=seed)
