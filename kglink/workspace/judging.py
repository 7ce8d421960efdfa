"""Answers a question about quality with what a workspace has: its space, its linker, its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kglink.errors import UsageError
from kglink.evaluation.annotated import (
    AnnotatedText,
    merged_texts,
    nil_places,
    of_linked_types,
    with_nil,
    without_golds,
)
from kglink.evaluation.candidate_files import ListedRanker, read_candidates
from kglink.evaluation.comparison import Evaluated
from kglink.evaluation.measures.end_to_end import (
    Answer,
    EndToEndReport,
    JudgedText,
    evaluate_answers,
    linked_answers,
)
from kglink.evaluation.measures.retrieval import RetrievalReport
from kglink.evaluation.predictions import read_predictions
from kglink.evaluation.rankings import RankedMention, Ranker
from kglink.evaluation.retrieval import Mentions, Question, check_documents, evaluate_retrieval
from kglink.linking.read_together import ReadOrder, ReadTogether
from kglink.linking.stages import Stage
from kglink.records import OnProgress
from kglink.training.documents import mentions_of_runs
from kglink.training.run import run_of_model
from kglink.workspace.link_setup import stages_of
from kglink.workspace.opened import Opened


def judge(
    workspace: Opened, question: Question, sinks: Sequence[Any], progress: OnProgress
) -> RetrievalReport | EndToEndReport:
    """Judge rankings (each sink's ``add_ranked`` gets them) or whole answers (``add_answers``)."""

    def answered(text: JudgedText, answers: Sequence[Answer]) -> None:
        for one in sinks:
            one.add_answers(text, answers)

    def ranked(mention: RankedMention) -> None:
        for one in sinks:
            one.add_ranked(mention)

    if question.end_to_end:
        return judge_answers(workspace, question, progress=progress, each=answered)
    return judge_rankings(workspace, question, progress=progress, each=ranked)


def judge_rankings(
    workspace: Opened,
    question: Question,
    *,
    progress: OnProgress,
    each: Callable[[RankedMention], None],
) -> RetrievalReport:
    """Rank the mentions of annotated documents by the search that links texts."""
    check_documents(workspace.store, question.docs, question.split)
    question = replace(question, kbs=kbs_of(workspace, question))
    ranker: Ranker
    least = 0
    if question.file is None:
        # R@64 needs 64 candidates, as a text that is linked with 64 has them.
        ranker = workspace.linker(question.kbs, candidates=question.depth)
    else:
        ranker = listed = _listed_ranker(workspace, question, question.file)
        least = listed.depth  # the lists of a file are judged whole
    runs = mentions_learnt(workspace, question)
    return evaluate_retrieval(
        workspace.store, ranker, question, least=least, runs=runs, progress=progress, each=each
    )


def mentions_learnt(workspace: Opened, question: Question) -> list[tuple[str, Mentions]] | None:
    """What each run behind the space's model learnt from; None: nobody asks, or there is none."""
    if question.file is not None and not question.end_to_end:
        return None
    run = run_of_model(workspace.folder, workspace.space().manifest.model.path)
    return None if run is None else mentions_of_runs(workspace.store, run)


def _listed_ranker(workspace: Opened, question: Question, file: Path) -> ListedRanker:
    """Ranks mentions as a file lists their candidates, and as the settings' stages do anew."""
    store, link, joint = workspace.store, workspace.settings.link, workspace.joint_space
    documents = {
        name: list(store.documents(name, question.split or None)) for name in question.docs
    }
    lists = read_candidates(file, documents, question.kbs, store)
    stages = stages_of(link, workspace.registry, joint.folder)
    if link.rerank_top:
        reader = ReadTogether(joint.folder.reranker, joint.encoder.hardware, link.rerank_top)
        stages = [Stage("the trained reranker", ReadOrder(reader), link.rerank_top), *stages]
    workspace.stages += stages
    return ListedRanker(lists, documents, store, stages)


def judge_answers(
    workspace: Opened,
    question: Question,
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
    predicted = None
    if question.file is None:
        space = workspace.space()
        left_out = workspace.limited(space, kbs, workspace.limits()).leaves_out
        texts = [without_golds(text, left_out) for text in texts]
    else:
        known = [info.name for info in store.kbs() if info.entities]
        read = question.file, workspace.registry, texts, known, store
        predicted = read_predictions(*read, judged=kbs)

    def answers(pool: Sequence[str]) -> Iterator[Sequence[Answer]]:
        if predicted is not None:
            return iter(predicted)
        return linked_answers(workspace.linker(pool, space=space, judged=True), texts)

    return evaluate_answers(
        texts,
        kbs,
        answers,
        counterparts=store.counterparts if question.counterparts else None,
        complete=question.complete,
        other_types=other_types,
        per_kb=question.per_kb and question.file is None,
        progress=progress,
        each=each,
    )


def kbs_of(workspace: Opened, question: Question) -> tuple[str, ...]:
    """The KBs that are judged; what a file says needs no space."""
    if question.file is None:
        return workspace.linked_kbs(workspace.space(), question.kbs)
    named = question.kbs or tuple(workspace.settings.link.kbs)
    infos = [workspace.store.kb(name) for name in named] or workspace.store.kbs()
    return tuple(info.name for info in infos if info.entities)


def evaluated(workspace: Opened, question: Question) -> Evaluated:
    """What an evaluation is of, written beside what is kept of it."""
    link, more = workspace.settings.link, dict[str, Any]()
    if question.end_to_end:
        more["protocol"] = "end to end"
    else:
        more = {"depth": question.depth, "reranker": link.reranker}
    if question.file is not None:
        more["model"] = question.file.name
    else:
        space = workspace.space().manifest
        more |= {"space": space.name, "model": space.model.name}
        more |= {"found_by": link.found_by, "reranker": link.reranker}
    kbs = kbs_of(workspace, question)
    return Evaluated(question.docs, question.split, kbs, question.counterparts, **more)


def report_as_json(
    workspace: Opened, question: Question, report: RetrievalReport | EndToEndReport
) -> dict[str, Any]:
    """An evaluation as `kglink eval --json` prints it; of retrieval without the space."""
    file = str(question.file) if question.file else None
    of = {"docs": ",".join(question.docs), "split": question.split}
    if isinstance(report, EndToEndReport):
        space = None if file else workspace.settings.space.name
        asked = {"space": space, "predictions": file, "counterparts": question.counterparts}
        return {"protocol": "end to end", **of, **asked, **report.as_json()}
    link = workspace.settings.link
    return {
        **of,
        "found_by": None if file else link.found_by,
        "reranker": link.reranker,
        "counterparts": question.counterparts,
        "mentions_with_counterparts": report.with_counterparts,
        "depth": question.depth,
        "mentions": report.counts_as_json(),
        "metrics": report.as_json(),
        "intervals": report.intervals_as_json(),
        "accuracy": report.accuracies_as_json(),
        **({"candidates": file} if file else {}),
        **report.slices_as_json(),
    }
