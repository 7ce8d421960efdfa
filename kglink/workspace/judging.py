"""Answers a question about quality with what a workspace has: its space, its linker, its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kglink.errors import UsageError
from kglink.evaluation.annotated import (
    AnnotatedText,
    merged_texts,
    nil_places,
    of_linked_types,
    with_nil,
    without_golds,
)
from kglink.evaluation.candidate_files import ListedRanker, Place, read_candidates
from kglink.evaluation.kept import Evaluated
from kglink.evaluation.measures.end_to_end import (
    Answer,
    EndToEndReport,
    JudgedText,
    evaluate_answers,
    linked_answers,
)
from kglink.evaluation.measures.retrieval import RetrievalReport
from kglink.evaluation.predictions import read_predictions
from kglink.evaluation.rankings import RankedMention, in_text
from kglink.evaluation.retrieval import Question, check_documents, evaluate_retrieval
from kglink.linking.read_together import ReadOrder, ReadTogether
from kglink.linking.stages import Stage
from kglink.records import OnProgress
from kglink.training.documents import mentions_of_runs
from kglink.training.run import run_of_model
from kglink.workspace.linker import stages_of
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
    if question.candidates is not None:
        listed = replace(question, kbs=kbs_of(workspace, question))
        # What ranks mentions as a file lists their candidates, and as the settings' stages do anew.
        store, link = workspace.store, workspace.settings.link
        documents = {
            name: list(store.documents(name, listed.split or None)) for name in listed.docs
        }
        known = [info.name for info in store.kbs() if info.entities]
        lists = read_candidates(
            question.candidates, documents, known=known, kbs=listed.kbs, existing=store.existing
        )
        places = {
            in_text(document, one): Place(name, document.id, one.start, one.end)
            for name, some in documents.items()
            for document in some
            for one in document.mentions
        }
        stages = stages_of(link, workspace.registry, workspace.joint_space.folder)
        if link.rerank:
            joint = workspace.joint_space
            reader = ReadTogether(joint.folder.reranker, joint.encoder.hardware, link.rerank)
            stages = [Stage("the trained reranker", ReadOrder(reader), link.rerank), *stages]
        workspace.stages += stages
        ranker = ListedRanker(lists, places, store, tuple(stages))
        return evaluate_retrieval(workspace.store, ranker, listed, progress=progress, each=each)
    space = workspace.space()
    asked = replace(question, kbs=workspace.linked_kbs(space, question.kbs))
    run = run_of_model(workspace.folder, space.manifest.model.path)
    # R@64 needs 64 candidates, as a text that is linked with 64 has them.
    linker = workspace.linker(asked.kbs, space=space, candidates=asked.depth)
    runs = None if run is None else mentions_of_runs(workspace.store, run)
    return evaluate_retrieval(
        workspace.store, linker, asked, runs=runs, progress=progress, each=each
    )


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """What is evaluated from raw text to links, and how."""

    docs: tuple[str, ...]
    split: str
    kbs: tuple[str, ...] = ()
    counterparts: bool = False
    complete: bool | None = None
    """Whether all mentions are annotated; None: as it seems from the annotation."""
    per_kb: bool = True
    predictions: Path | None = None
    """A file whose answers are judged instead of those of the workspace's space."""


def evaluate_end_to_end(
    workspace: Opened,
    question: EndToEnd,
    *,
    progress: OnProgress,
    each: Callable[[JudgedText, Sequence[Answer]], None],
) -> EndToEndReport:
    """Judge what linking raw texts gives, or what a file says that another tool gave."""
    store = workspace.store
    check_documents(store, question.docs, question.split)
    kbs = kbs_of(workspace, question)
    texts: list[AnnotatedText] = []
    other_types: Counter[str] = Counter()
    for name in question.docs:
        documents = store.documents(name, question.split or None)
        whole = merged_texts(name, with_nil(documents, nil_places(store, name, kbs)))
        own, others = of_linked_types(whole, kbs)
        texts += own
        other_types += others
    if not any(text.mentions for text in texts):
        raise UsageError(f"the documents of {', '.join(question.docs)} have no mentions")
    if question.predictions is None:
        space = workspace.space()
        left_out = workspace.limited(space, kbs, workspace.limits()).leaves_out
        texts = [without_golds(text, left_out) for text in texts]

        def answers(pool: Sequence[str]) -> Iterator[Sequence[Answer]]:
            return linked_answers(workspace.linker(pool, space=space), texts)

    else:
        known = [info.name for info in store.kbs() if info.entities]
        path, registry = question.predictions, workspace.registry
        predicted = read_predictions(path, registry, texts, known, store, judged=kbs)

        def answers(pool: Sequence[str]) -> Iterator[Sequence[Answer]]:
            return iter(predicted)

    return evaluate_answers(
        texts,
        kbs,
        answers,
        counterparts=store.counterparts if question.counterparts else None,
        complete=question.complete,
        other_types=other_types,
        per_kb=question.per_kb and question.predictions is None,
        progress=progress,
        each=each,
    )


def _file_of(question: EndToEnd | Question) -> Path | None:
    return question.predictions if isinstance(question, EndToEnd) else question.candidates


def kbs_of(workspace: Opened, question: EndToEnd | Question) -> tuple[str, ...]:
    """The KBs that are judged; what a file says needs no space."""
    if _file_of(question) is None:
        return workspace.linked_kbs(workspace.space(), question.kbs)
    named = question.kbs or tuple(workspace.settings.link.kbs)
    infos = [workspace.store.kb(name) for name in named] or workspace.store.kbs()
    return tuple(info.name for info in infos if info.entities)


def evaluated(workspace: Opened, question: Question | EndToEnd) -> Evaluated:
    """What an evaluation is of, written beside what is kept of it."""
    link = workspace.settings.link
    asked = Evaluated(
        docs=question.docs,
        split=question.split,
        kbs=kbs_of(workspace, question),
        counterparts=question.counterparts,
    )
    file = _file_of(question)
    if isinstance(question, EndToEnd):
        asked = replace(asked, protocol="end to end")
    else:
        asked = replace(asked, depth=question.depth, reranker=link.reranker)
    if file is not None:
        return replace(asked, model=file.name)
    manifest = workspace.space().manifest
    return replace(
        asked,
        space=manifest.name,
        model=manifest.model.name,
        evidence=link.evidence,
        reranker=link.reranker,
    )
