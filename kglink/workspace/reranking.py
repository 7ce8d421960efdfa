"""The candidates of a space for annotated mentions, which a reranker learns from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from kglink.linking.fit import FOLDS, JudgedMention, fold_of, judged_mentions
from kglink.linking.kinds import joint_ranking
from kglink.linking.pipeline import BATCH_MENTIONS, Linker
from kglink.records import Document, OnProgress, Progress, Ranking
from kglink.training.documents import sources_of_documents, splits_of
from kglink.training.reranker import JudgedRanking, ToRead
from kglink.training.run import RunSettings
from kglink.workspace.fitting import is_remembered, memory_of
from kglink.workspace.linker import linker_of, search_of

if TYPE_CHECKING:
    from kglink.workspace.opened import Opened

#: How many first candidates of a mention are found at least: a right one may stand far behind.
DEPTH = 64
#: More mentions than these judge no better.
MOST_HELD_OUT = 1000


def mentions_to_read(opened: Opened, told: RunSettings, progress: OnProgress) -> ToRead:
    """The mentions of annotated documents with their candidates, divided as for all stages.

    Where memory was learnt from the same documents it is asked without what those of the same
    part say themselves.
    """
    store, section = opened.store, told.recipe.reranker
    space = opened.space()
    kbs, depth = space.kbs(), max(DEPTH, section.candidates)
    parts: tuple[list[Document], list[Document]] = ([], [])
    used = sources_of_documents(store, told.docs)
    for name in used:
        splits = splits_of(store, name, told.recipe.selection, told.seed)
        for document, held_back in splits.divided(store):
            parts[held_back].append(document)
    memory_without = memory_of(store, remembered=is_remembered(store, used))
    link = opened.settings.link.model_copy(update={"evidence": section.found_by, "rerank": 0})
    search = search_of(space, opened.encoder, link, store, opened.registry)

    def judged(documents: Sequence[Document], most: int) -> Iterator[JudgedRanking]:
        """Mentions with their candidates, from all documents alike."""
        chosen, done = judged_mentions(documents, kbs, most), 0
        for fold in range(FOLDS):
            memory = memory_without([one for one in documents if fold_of(one) == fold])
            linker = linker_of(search.with_memory(memory), space, kbs, link, store, opened.registry)
            own = iter([one for one in chosen if one.fold == fold])
            while batch := list(islice(own, BATCH_MENTIONS)):
                found = list(_with_candidates(linker, batch, kbs, depth))
                done += len(found)
                progress(Progress("candidates of mentions", done, len(chosen)))
                yield from found

    learnt, held_out = parts
    return ToRead(
        list(judged(learnt, section.most_mentions * section.epochs)),
        list(judged(held_out, MOST_HELD_OUT)),
        tuple(used),
    )


def _with_candidates(
    linker: Linker, batch: Sequence[JudgedMention], kbs: Sequence[str], depth: int
) -> Iterator[JudgedRanking]:
    """Of what is right in some KBs the candidates there: nobody has judged those of the others."""
    answers = linker.candidates([one.mention for one in batch], limit=depth)
    rankings = []
    for (_, mention, gold), by_kb in zip(batch, answers, strict=True):
        judged = [kb for kb in kbs if not gold or any(one.kb == kb for one in gold)]
        rankings.append(Ranking(mention, tuple(joint_ranking(by_kb, judged)[:depth])))
    for ranking, one in zip(linker.described(rankings), batch, strict=True):
        if ranking.candidates:
            yield JudgedRanking(ranking, one.gold)
