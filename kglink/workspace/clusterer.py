"""Choosing how mentions help each other in a space, with annotated documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kglink.errors import UsageError
from kglink.records import EntityId, OnProgress, Progress, Ranking
from kglink.workspace.named import named

if TYPE_CHECKING:
    from kglink.linking.fit import JudgedMention
    from kglink.linking.fit_clusterer import ClustererChoice, KnownMention
    from kglink.linking.pipeline import Linker
    from kglink.workspace.opened import Opened

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
