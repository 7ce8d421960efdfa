"""Training a reranker on the candidates of a space, and giving it to the space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kglink.config import LinkSection
from kglink.evaluation.rankings import JUDGED_JOINT
from kglink.evaluation.replacement import Replacement, compare_spaces
from kglink.linking.fit import FOLDS, JudgedMention, fold_of, judged_mentions
from kglink.linking.kinds import joint_ranking
from kglink.linking.pipeline import BATCH_MENTIONS, Linker
from kglink.linking.scoring import Scoring, write_scoring
from kglink.models.reranker_folder import RERANKER, AnswersCompared
from kglink.records import Document, OnProgress, Progress, Ranking
from kglink.training.documents import held_back_documents, sources_of_documents, splits_of
from kglink.training.job import FinetuneJob, Tell
from kglink.training.recipe import FoundBy, Recipe
from kglink.training.reranker import JudgedRanking, RerankerReport, ToRead, reranker_run
from kglink.training.run import RunSettings, TrainingReport
from kglink.workspace.detectors import without_auto
from kglink.workspace.fitting import fit_space, is_remembered, memory_of
from kglink.workspace.linker import linker_of, search_of

if TYPE_CHECKING:
    from kglink.workspace.opened import Opened

#: So many first candidates of each KB are read where the settings say nothing.
RERANKED = 8
#: So many first candidates of a mention are found at least: a right one may stand far behind.
DEPTH = 64
#: More mentions than these judge no better.
MOST_HELD_OUT = 1000


class Reranked(NamedTuple):
    """A trained reranker, and what the space answers without it and with it."""

    report: RerankerReport
    replacement: Replacement
    published: bool = False


def train_for(
    target: Opened, job: FinetuneJob, folder: Path, progress: Tell
) -> tuple[TrainingReport, RerankerReport]:
    """Train a reranker on the candidates that a space has for annotated mentions."""
    return reranker_run(
        target.store,
        lambda told: mentions_to_read(
            *(target, told.docs, told.recipe, told.seed), progress=progress
        ),
        job,
        folder,
        tell=progress,
    )


def publish_reranker(
    target: Opened, told: RunSettings, trained: RerankerReport, progress: Tell, *, anyway: bool
) -> Reranked:
    """Give a reranker to the space, with the weight of what it says, unless answers get worse.

    Both are found on the documents that were held back, the weight by cross-fitting.
    """
    space, store = target.space(), target.store
    asked = told.docs, told.recipe.selection, told.seed, space.kbs()
    documents = [*held_back_documents(store, *asked)]
    remembered = is_remembered(store, sources_of_documents(store, told.docs))
    plain = without_auto(target.settings.link).model_copy(update={"evidence": "all", "rerank": 0})
    reading = plain.model_copy(update={"rerank": target.settings.link.rerank or RERANKED})
    parts = (store, target.registry)
    fitted = fit_space(
        *(space, target.encoder, reading, *parts, documents, progress),
        remembered=remembered,
        reranker=trained.folder,
    )

    def linker(link: LinkSection, part: Sequence[Document], scoring: Scoring | None) -> Linker:
        search = search_of(
            *(space, target.encoder, link, *parts),
            scoring=scoring or "kept",
            reranker=trained.folder,
        )
        memory = memory_of(store, remembered=remembered)(part)
        return linker_of(search.with_memory(memory), space, space.kbs(), link, *parts)

    replacement = compare_spaces(
        documents,
        space.kbs(),
        lambda fold, part: linker(plain, part, None),
        lambda fold, part: linker(reading, part, fitted.without(fold)),
        progress=progress,
    )
    if replacement.objection and not anyway:
        return Reranked(trained, replacement)
    joint = replacement.tests[JUDGED_JOINT]
    compared = AnswersCompared(
        without=round(joint.right, 4), with_it=round(joint.left, 4), mentions=joint.items
    )
    manifest = trained.manifest.model_copy(update={"compared": compared})
    RERANKER.publish(trained.folder, space.folder.reranker, manifest)
    write_scoring(space.folder.reranker, space.manifest.model.fingerprint, fitted.scoring)
    return Reranked(trained._replace(manifest=manifest), replacement, published=True)


def mentions_to_read(
    opened: Opened,
    docs: Sequence[str],
    recipe: Recipe,
    seed: int,
    *,
    progress: OnProgress = lambda _: None,
) -> ToRead:
    """The mentions of annotated documents, divided as for all stages."""
    store, section = opened.store, recipe.reranker
    train: list[Document] = []
    held_out: list[Document] = []
    used: list[str] = []
    for name in sources_of_documents(store, docs):
        for document, held_back in splits_of(store, name, recipe.selection, seed).divided(store):
            (held_out if held_back else train).append(document)
        used.append(name)
    remembered = is_remembered(store, used)
    searching = Searching(section.found_by, max(DEPTH, section.candidates), remembered)
    return ToRead(
        _judged(opened, train, section.most_mentions * section.epochs, searching, progress),
        _judged(opened, held_out, MOST_HELD_OUT, searching, progress),
        tuple(used),
    )


class Searching(NamedTuple):
    """How candidates to learn from are found.

    ``remembered``: memory was learnt from the same documents, and is asked without what those of
    the same part say themselves.
    """

    found_by: FoundBy
    depth: int
    remembered: bool


def _judged(
    opened: Opened,
    documents: Sequence[Document],
    most: int,
    searching: Searching,
    progress: OnProgress,
) -> list[JudgedRanking]:
    """Mentions with their candidates, from all documents alike."""
    space, store = opened.space(), opened.store
    kbs = space.kbs()
    link = opened.settings.link.model_copy(update={"evidence": searching.found_by, "rerank": 0})
    parts = (link, store, opened.registry)
    search = search_of(space, opened.encoder, *parts)
    chosen = judged_mentions(documents, kbs, most)
    found: list[JudgedRanking] = []
    for fold in range(FOLDS):
        part = [one for one in documents if fold_of(one) == fold]
        memory = memory_of(store, remembered=searching.remembered)(part)
        linker = linker_of(search.with_memory(memory), space, kbs, *parts)
        own = iter([one for one in chosen if one.fold == fold])
        while batch := list(islice(own, BATCH_MENTIONS)):
            found += _with_candidates(linker, batch, kbs, searching.depth)
            progress(Progress("candidates of mentions", len(found), len(chosen)))
    return found


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
