"""Evaluation with what a workspace has: its space, its linker, the run that made its model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kglink.evaluation.kept import Evaluated
from kglink.evaluation.rankings import RankedMention
from kglink.evaluation.report import RetrievalReport
from kglink.evaluation.retrieval import Question, check_documents, evaluate_retrieval
from kglink.records import OnProgress
from kglink.training.documents import mentions_of_runs
from kglink.training.run import run_of_model

if TYPE_CHECKING:
    from kglink.workspace.opened import Opened


def evaluate(
    workspace: Opened,
    question: Question,
    *,
    progress: OnProgress,
    each: Callable[[RankedMention], None],
) -> RetrievalReport:
    """Rank the mentions of annotated documents by the search that links texts."""
    check_documents(workspace.store, question.docs, question.split)
    space = workspace.space()
    asked = replace(question, kbs=workspace.linked_kbs(space, question.kbs))
    run = run_of_model(workspace.folder, space.manifest.model.path)
    # R@64 needs 64 candidates, as a text that is linked with so many does.
    linker = workspace.linker(asked.kbs, space=space, candidates=asked.depth)
    runs = None if run is None else mentions_of_runs(workspace.store, run)
    return evaluate_retrieval(
        workspace.store, linker, asked, runs=runs, progress=progress, each=each
    )


def evaluated(workspace: Opened, question: Question) -> Evaluated:
    """What an evaluation is of, written beside the ranks that are kept of it."""
    space, link = workspace.space(), workspace.settings.link
    manifest = space.manifest
    return Evaluated(
        docs=question.docs,
        split=question.split,
        kbs=workspace.linked_kbs(space, question.kbs),
        counterparts=question.counterparts,
        space=manifest.name,
        model=manifest.model.name,
        evidence=link.evidence,
        reranker=link.reranker,
    )
