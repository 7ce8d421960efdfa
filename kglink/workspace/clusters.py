"""Whether mentions of one thing are answered alike, and mentions of two things apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kglink.records import OnProgress
from kglink.workspace.build import build_if_stale
from kglink.workspace.named import named

if TYPE_CHECKING:
    from kglink.evaluation.measures.clusters import ClusterFigures, Coreference
    from kglink.evaluation.retrieval import Question
    from kglink.workspace.judging import EndToEnd
    from kglink.workspace.opened import Opened


def evaluate_clusters(
    opened: Opened,
    docs: str | Sequence[str],
    *,
    split: str | None = None,
    kbs: str | Sequence[str] = (),
    end_to_end: bool = False,
    progress: OnProgress = lambda _: None,
) -> ClusterFigures:
    """How well the mentions of annotated documents are put together: ARI, NMI, B-cubed, CEAF.

    Mentions with one answer are a cluster, those with the same golds a right one. Their places are
    given, or with ``end_to_end`` looked for; then NIL clusters count as well.

    >>> workspace.evaluate_clusters("notes", kbs=["birds"]).ari
    1.0
    """
    from kglink.evaluation.retrieval import Question, judged_split
    from kglink.workspace.judging import EndToEnd, evaluate, evaluate_end_to_end

    build_if_stale(opened)
    names = named(docs)
    split = judged_split(opened.store, names, split)
    if end_to_end:
        raw = EndToEnd(names, split, named(kbs), per_kb=False)
        found = coreference(opened, raw)
        evaluate_end_to_end(opened, raw, progress=progress, each=found.add_answers)
    else:
        asked = Question(names, split, named(kbs), (1,))
        found = coreference(opened, asked)
        evaluate(opened, asked, progress=progress, each=found.add_ranked)
    return figures_of(opened, found)


def coreference(opened: Opened, question: Question | EndToEnd) -> Coreference:
    """What is to be told of each mention, or each text, of an evaluation."""
    from kglink.evaluation.annotated import annotation_of, merged_texts
    from kglink.evaluation.measures.clusters import Coreference
    from kglink.evaluation.retrieval import check_documents
    from kglink.workspace.judging import EndToEnd

    check_documents(opened.store, question.docs, question.split)
    if not isinstance(question, EndToEnd):
        return Coreference()
    texts = [
        text
        for name in question.docs
        for text in merged_texts(
            name, opened.store.documents(name, question.split or None, unresolved=True)
        )
    ]
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


def figures_of(opened: Opened, found: Coreference, *, vectors: bool = True) -> ClusterFigures:
    """The figures of all mentions; with ``vectors`` also how near mentions of one thing are."""
    if not (vectors and found.given):
        return found.figures()
    return found.figures(opened.linker().mention_vectors(found.given)[1])
