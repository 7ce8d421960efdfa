"""Why mentions are answered wrongly, with what a workspace has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kglink.records import OnProgress
from kglink.workspace.build import build_if_stale
from kglink.workspace.named import named

if TYPE_CHECKING:
    from kglink.evaluation.measures.errors import Case, ErrorAnalysis, ErrorSummary
    from kglink.evaluation.retrieval import Question
    from kglink.evaluation.seen import LearntFrom
    from kglink.workspace.judging import EndToEnd
    from kglink.workspace.opened import Opened

#: How many candidates of a mention in raw text are asked for a right one.
DEPTH = 64


def evaluate_errors(
    opened: Opened,
    docs: str | Sequence[str],
    *,
    split: str | None = None,
    kbs: str | Sequence[str] = (),
    end_to_end: bool = False,
    counterparts: bool = False,
    seen_in: str = "auto",
    progress: OnProgress = lambda _: None,
    each: Callable[[Case], None] = lambda case: None,
) -> ErrorSummary:
    """Why mentions of annotated documents are answered wrongly, counted.

    The mentions' places are given, or with ``end_to_end`` looked for. ``each`` is told of every
    mention: what is right, what was answered, the reason. The rest is as `evaluate` has it.

    >>> workspace.evaluate_errors("notes", kbs=["birds"]).all
    Counter({None: 1})
    """
    from kglink.evaluation.retrieval import Question, judged_split
    from kglink.workspace.judging import EndToEnd, evaluate, evaluate_end_to_end

    build_if_stale(opened)
    names = named(docs)
    split = judged_split(opened.store, names, split)
    if end_to_end:
        raw = EndToEnd(names, split, named(kbs), counterparts, per_kb=False)
        analysis = error_analysis(opened, raw, seen_in=seen_in, each=each)
        evaluate_end_to_end(opened, raw, progress=progress, each=analysis.add_answers)
    else:
        asked = Question(names, split, named(kbs), (DEPTH,), counterparts, seen_in=seen_in)
        analysis = error_analysis(opened, asked, seen_in=seen_in, each=each)
        evaluate(opened, asked, progress=progress, each=analysis.add_ranked)
    return analysis.finish()


def error_analysis(
    opened: Opened,
    question: Question | EndToEnd,
    *,
    seen_in: str = "auto",
    each: Callable[[Case], None] = lambda case: None,
) -> ErrorAnalysis:
    """What is called for each mention, or each text, of an evaluation."""
    from kglink.evaluation.measures.errors import ErrorAnalysis
    from kglink.evaluation.retrieval import check_documents
    from kglink.workspace.judging import EndToEnd, kbs_of

    check_documents(opened.store, question.docs, question.split)
    kbs = kbs_of(opened, question)
    raw = isinstance(question, EndToEnd)
    return ErrorAnalysis(
        opened.store,
        kbs,
        counterparts=question.counterparts,
        learnt=_learnt_from(opened, question, seen_in),
        ranker=opened.linker(kbs, candidates=DEPTH) if raw else None,
        depth=DEPTH,
        each=each,
    )


def _learnt_from(opened: Opened, question: Question | EndToEnd, seen_in: str) -> LearntFrom | None:
    """What of the evaluated mentions was learnt from; None where nobody knows."""
    from kglink.evaluation.seen import LearntFrom, find_learnt
    from kglink.training.documents import mentions_of_runs
    from kglink.training.run import run_of_model

    store = opened.store
    listed = getattr(question, "candidates", None) is not None
    run = None if listed else run_of_model(opened.folder, opened.space().manifest.model.path)
    runs = None if run is None else mentions_of_runs(store, run)
    learnt = find_learnt(store, seen_in, question.docs, question.split, runs)
    if learnt is None:
        return None
    documents = (
        one for name in question.docs for one in store.documents(name, question.split or None)
    )
    return LearntFrom(learnt, documents)
