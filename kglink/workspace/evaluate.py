"""Evaluation: retrieval, whole answers, errors, clusters and overlaps; `judging` answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

from kglink.evaluation.annotated import AnnotatedText, annotation_of, merged_texts
from kglink.evaluation.candidate_files import (
    Found,
    judged_places,
    line_of,
    listed_by,
    qrels_lines,
    read_candidates,
    run_lines,
    united,
)
from kglink.evaluation.measures import overlaps
from kglink.evaluation.measures.clusters import ClusterFigures, Coreference
from kglink.evaluation.measures.end_to_end import Answer, EndToEndReport, JudgedText
from kglink.evaluation.measures.errors import Case, ErrorAnalysis, ErrorSummary
from kglink.evaluation.measures.overlaps import OverlapFigures, OverlapTest
from kglink.evaluation.measures.retrieval import RetrievalReport
from kglink.evaluation.rankings import RankedMention
from kglink.evaluation.retrieval import Question, check_documents, judged_split, learnt_from
from kglink.records import OnProgress, Progress
from kglink.workspace.folder import check_answers, check_known, named
from kglink.workspace.judging import judge, judge_answers, judge_rankings, kbs_of, mentions_learnt
from kglink.workspace.opened import Opened
from kglink.workspace.outputs import opened_output
from kglink.workspace.spaces import build_if_stale


def _question(
    opened: Opened,
    docs: str | Sequence[str],
    split: str | None,
    kbs: str | Sequence[str],
    ks: Sequence[int] = (1,),
    file: str | Path | None = None,
    **more: Any,
) -> Question:
    """A question about these documents; a space that it needs is built where it is stale."""
    names = named(docs)
    split = judged_split(opened.store, names, split)
    path = None if file is None else Path(file)
    if path is None:
        build_if_stale(opened)
    return Question(names, split, named(kbs), tuple(ks), file=path, **more)


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
    """Measure retrieval on annotated documents, with the places of mentions given.

    Without ``split`` it takes the split dev, or all documents if none has a split. With
    ``counterparts`` a gold's counterpart in another KB is right in joint rankings; ``domains``
    adds figures by type of entity. ``seen_in`` names documents that were learnt from, as
    ``kglink eval --seen-in`` does. ``candidates`` names a file of `write_candidates`, or of
    ZESHEL's lists, to judge instead of the space. ``each`` gets every mention. A space that is
    missing or older than the store is built first.

    >>> report = workspace.evaluate("notes", kbs=["birds"])
    >>> report.recall("birds")
    {'R@1': 1.0, 'R@5': 1.0}
    """
    question = _question(
        *(opened, docs, split, kbs, ks, candidates),
        counterparts=counterparts,
        domains=domains,
        seen_in=seen_in,
    )
    return judge_rankings(opened, question, progress=progress, each=each)


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
    """Measure links of annotated texts, with mentions found by kglink.

    With ``counterparts`` a gold's counterpart in another KB is right, except where a KB is
    judged alone (``per_kb``). Precision is known if all mentions are annotated (``complete``; None:
    guessed). ``predictions`` names a file, as ``kglink link --format jsonl`` writes it,
    that is judged instead. ``each`` is called for every text.

    >>> report = workspace.evaluate_end_to_end("notes", kbs=["birds"])
    >>> report.joint.links["strict"].micro.recall
    1.0
    """
    question = _question(
        *(opened, docs, split, kbs),
        file=predictions,
        counterparts=counterparts,
        end_to_end=True,
        complete=complete,
        per_kb=per_kb,
    )
    return judge_answers(opened, question, progress=progress, each=each)


def evaluate_overlaps(
    opened: Opened, kbs: str | Sequence[str] = (), *, progress: OnProgress = lambda _: None
) -> list[OverlapFigures]:
    """Measure how near the entities of accepted overlaps are, of these KBs or of all."""
    build_if_stale(opened)
    space = opened.space()
    names = opened.linked_kbs(space, kbs)
    return overlaps.evaluate_overlaps(space, opened.store, names, progress=progress)


def overlap_significance(
    opened: Opened, other: str, kbs: str | Sequence[str] = (), *, seed: int = 0
) -> list[OverlapTest]:
    """Whether MRR and ACS of the space differ from those of another by more than chance.

    A paired randomization test over the overlaps that both hold; the other space is on the right.
    """
    build_if_stale(opened)
    there = opened.with_settings({"space.name": other}).space()
    space = opened.space()
    names = opened.linked_kbs(space, kbs)
    return overlaps.compare_overlaps((space, there), opened.store, names, seed=seed)


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
    """Count the reasons why mentions of annotated documents are answered wrongly.

    The mentions' places are given, or with ``end_to_end`` found. ``each`` gets every mention: the
    right answer, the given one, the reason. The rest is as in ``evaluate``.

    >>> workspace.evaluate_errors("notes", kbs=["birds"]).all
    Counter({None: 1})
    """
    question = _question(
        *(opened, docs, split, kbs, (DEPTH,)),
        counterparts=counterparts,
        seen_in=seen_in,
        end_to_end=end_to_end,
        per_kb=False,
    )
    analysis = error_analysis(opened, question, each=each)
    judge(opened, question, [analysis], progress)
    return analysis.finish()


def error_analysis(
    opened: Opened, question: Question, *, each: Callable[[Case], None] = lambda case: None
) -> ErrorAnalysis:
    """What gets each mention, or each text, of an evaluation."""
    check_documents(opened.store, question.docs, question.split)
    kbs = kbs_of(opened, question)
    return ErrorAnalysis(
        opened.store,
        kbs,
        counterparts=question.counterparts,
        learnt=learnt_from(opened.store, question, mentions_learnt(opened, question)),
        ranker=opened.linker(kbs, candidates=DEPTH) if question.end_to_end else None,
        depth=DEPTH,
        each=each,
    )


def evaluate_clusters(
    opened: Opened,
    docs: str | Sequence[str],
    *,
    split: str | None = None,
    kbs: str | Sequence[str] = (),
    end_to_end: bool = False,
    progress: OnProgress = lambda _: None,
) -> ClusterFigures:
    """Measure how mentions of annotated documents are grouped: ARI, NMI, B-cubed, CEAF.

    Mentions with the same answer are a cluster; those with the same golds are a right one. Their
    places are given, or with ``end_to_end`` found; then NIL clusters count as well.

    >>> workspace.evaluate_clusters("notes", kbs=["birds"]).ari
    1.0
    """
    question = _question(opened, docs, split, kbs, end_to_end=end_to_end, per_kb=False)
    found = coreference(opened, question)
    judge(opened, question, [found], progress)
    return cluster_figures(opened, found)


def coreference(opened: Opened, question: Question) -> Coreference:
    """What gets each mention, or each text, of an evaluation."""
    check_documents(opened.store, question.docs, question.split)
    if not question.end_to_end:
        return Coreference()
    texts: list[AnnotatedText] = []
    for name in question.docs:
        documents = opened.store.documents(name, question.split or None, unresolved=True)
        texts += merged_texts(name, documents)
    complete = question.complete
    if complete is None:
        complete = not annotation_of(texts).partial
    meant = {
        (text.text, one.start, one.end): one.gold
        for text in texts
        for one in text.mentions
        if one.gold
    }
    return Coreference(meant, complete=complete)


def cluster_figures(opened: Opened, found: Coreference, *, vectors: bool = True) -> ClusterFigures:
    """The figures of all mentions; with ``vectors`` also how near mentions of one thing are."""
    if not (vectors and found.given):
        return found.figures()
    return found.figures(opened.linker().mention_vectors(found.given)[1])


FORMS = ("jsonl", "trec")


def write_candidates(
    opened: Opened,
    docs: str | Sequence[str],
    output: str | Path | TextIO,
    *,
    split: str | None = None,
    kbs: str | Sequence[str] = (),
    k: int = 64,
    union: Sequence[str | Path] = (),
    with_gold: bool = False,
    form: str = "jsonl",
    qrels: str | Path | TextIO | None = None,
    progress: OnProgress = lambda _: None,
) -> int:
    """Write the ``k`` best candidates of each KB for every mention with gold in the KBs.

    Returns the number of mentions. Without ``split`` it takes the documents that ``evaluate``
    takes. ``union`` names files of candidates to unite instead. ``with_gold`` adds a right entity
    if none was found. ``form`` is ``jsonl``, or ``trec``: a run; ``qrels`` gets the right answers
    for TREC's tools. ``evaluate`` reads both forms.
    """
    check_answers(k)
    check_known("format", form, FORMS)
    names, store = named(docs), opened.store
    split = judged_split(store, names, split)
    check_documents(store, names, split)
    files = [Path(one) for one in union]
    if not files:
        build_if_stale(opened)
    with_entities = (info.name for info in store.kbs() if info.entities)
    asked = named(kbs) or (tuple(with_entities) if files else opened.linked_kbs(opened.space()))
    documents = {name: store.documents(name, split or None) for name in names}
    if files:
        read = {name: list(some) for name, some in documents.items()}
        lists = [read_candidates(path, read, asked, store) for path in files]
        given: Iterator[Found] = (
            Found(place, one, united([own[place] for own in lists]))
            for place, _, one in judged_places(read, asked)
        )
    else:
        given = listed_by(opened.linker(asked, candidates=k), documents, asked, k)
    written = 0
    with (
        opened_output(opened, output) as out,
        nullcontext() if qrels is None else opened_output(opened, qrels) as golds,
    ):
        for written, found in enumerate(given, 1):
            gold = [one for one in found.mention.gold or () if one.kb in asked]
            listed = found.listed
            if with_gold:
                listed = listed.with_gold(found.mention.gold or (), asked, in_place=not files)
            if form == "trec":
                out.write(run_lines(found.place, listed.ids))
            else:
                out.write(line_of(found._replace(listed=listed)))
            if golds is not None:
                golds.write(qrels_lines(found.place, gold))
            if written % 256 == 0:
                progress(Progress("mentions", written))
    return written
