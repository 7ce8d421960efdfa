"""Mentions of one thing: choosing how they help each other, and whether they are answered alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kglink.errors import UsageError
from kglink.records import EntityId, OnProgress, Progress, Ranking
from kglink.workspace.build import build_if_stale
from kglink.workspace.named import named

if TYPE_CHECKING:
    from kglink.evaluation.measures.clusters import ClusterFigures, Coreference
    from kglink.evaluation.retrieval import Question
    from kglink.linking.fit import JudgedMention
    from kglink.linking.fit_clusterer import ClustererChoice, KnownMention
    from kglink.linking.pipeline import Linker
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
    """What is called for each mention, or each text, of an evaluation."""
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


#: The clusterer of `kglink link --cluster`.
CLUSTERER = "kglink/mentions"


def fit_clusterer(
    opened: Opened,
    docs: str | Sequence[str],
    *,
    split: str = "",
    progress: OnProgress = lambda _: None,
) -> ClustererChoice:
    """Choose how mentions help each other in the space, or that they do not, and keep it.

    Chosen are the settings of the clusterer (that of the settings, else ``kglink/mentions``) with
    which most mentions of annotated documents are answered right. That they help must show on
    documents that they were not chosen on. What memory has learnt from these does not count.
    """
    from kglink.linking.fit import FOLDS, MOST_MENTIONS, fold_of, judged_mentions
    from kglink.linking.fit_clusterer import choose_settings, write_choice
    from kglink.workspace.detectors import without_auto
    from kglink.workspace.fitting import is_remembered, memory_of
    from kglink.workspace.linker import linker_of, search_of
    from kglink.workspace.memory import judged_documents

    names = named(docs)
    documents = judged_documents(opened, names, split)
    space, store, registry = opened.space(), opened.store, opened.registry
    kbs = space.kbs()
    asked = without_auto(opened.settings.link)
    alone = asked.model_copy(update={"clusterer": ""})
    clustered = asked.model_copy(update={"clusterer": asked.clusterer or CLUSTERER})
    search = search_of(space, opened.encoder, asked, store, registry)
    memory_without = memory_of(store, remembered=is_remembered(store, names))
    judged = judged_mentions(documents, kbs, MOST_MENTIONS)
    if not any(one.gold for one in judged):
        raise UsageError(
            "no mention of these documents has its answer in the space",
            hint="Give annotated documents that link to its KBs.",
        )
    known: list[KnownMention] = []
    for part in range(FOLDS):
        memory = memory_without([one for one in documents if fold_of(one) == part])
        linker = linker_of(search.with_memory(memory), space, kbs, alone, store, registry)
        own = [one for one in judged if one.fold == part]
        for one in _known(linker, own, max(asked.top_k, asked.reranked)):
            known.append(one)
            progress(Progress("mentions", len(known), len(judged)))
    helping = linker_of(search, space, kbs, clustered, store, registry)

    def answer(ranking: Ranking) -> EntityId | None:
        chosen = helping.decided(ranking).chosen
        return chosen.id if chosen else None

    fingerprint = space.manifest.model.fingerprint
    choice = choose_settings(helping.stages[-1], known, answer, fingerprint, progress)
    write_choice(space.folder.path, choice)
    return choice


def kept_clusterer_choice(opened: Opened) -> ClustererChoice | None:
    """What `fit_clusterer` chose for the clusterer of the settings; None: nothing."""
    from kglink.workspace.linker import clusterer_choice

    return clusterer_choice(opened.settings.link, opened.registry, opened.space().folder)


def _known(linker: Linker, judged: Sequence[JudgedMention], depth: int) -> Iterator[KnownMention]:
    """Mentions with the candidates that a clusterer is given."""
    from kglink.linking.fit_clusterer import KnownMention
    from kglink.linking.pipeline import BATCH_MENTIONS

    for first in range(0, len(judged), BATCH_MENTIONS):
        batch = judged[first : first + BATCH_MENTIONS]
        found = linker.joint([one.mention for one in batch], limit=depth)
        rankings = linker.described(
            [Ranking(one.mention, tuple(own)) for one, own in zip(batch, found, strict=True)]
        )
        for stage in linker.stages:
            rankings = stage.rank(rankings)
        for ranking, one in zip(rankings, batch, strict=True):
            yield KnownMention(ranking, one.gold, one.fold)
