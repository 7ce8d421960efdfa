"""Fitting how a space weighs evidence, with what a workspace has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kglink.config import LinkSection
from kglink.errors import SpaceError
from kglink.evaluation.annotated import annotation_of, merged_texts
from kglink.linking.fit import Rankings, fit_rankings, judged_rankings
from kglink.linking.fit_judge import fit_judge
from kglink.linking.memory import Memory
from kglink.linking.scoring import Scoring, write_scoring
from kglink.models import Encoder
from kglink.plugins import Registry
from kglink.records import Document, OnProgress
from kglink.space.space import Space
from kglink.store import Store
from kglink.workspace.detectors import without_auto
from kglink.workspace.linker import linker_of, search_of


class Fitted(NamedTuple):
    """The scoring that was fitted, and to what."""

    scoring: Scoring
    rankings: Rankings
    start: Scoring

    def without(self, fold: int) -> Scoring:
        """What is fitted without one part of the documents, to judge that part by."""
        return fit_rankings(self.rankings.without(fold), self.start)


def is_remembered(store: Store, docs: Iterable[str]) -> bool:
    """Whether memory was learnt from some of these documents."""
    return not store.memory_sources().keys().isdisjoint(docs)


def memory_of(store: Store, *, remembered: bool) -> Callable[[Sequence[Document]], Memory]:
    """The memory that some documents are judged by: what they say themselves is left out."""
    return store.memory_without if remembered else lambda part: store


def fit_space(
    space: Space,
    encoder: Encoder,
    settings: LinkSection,
    store: Store,
    registry: Registry,
    documents: Iterable[Document],
    progress: OnProgress,
    *,
    remembered: bool = False,
    reranker: Path | None = None,
) -> Fitted:
    """Fit the scoring of a space, and keep it; ``remembered``: memory was learnt from these too.

    Where a reranker is asked, the space's or the one of a folder, it is kept beside that.
    """
    unfitted = settings.model_copy(update={"evidence": "all"})
    parts = (space, encoder, unfitted, store, registry)
    place = (reranker or space.folder.reranker) if settings.rerank else space.folder.path
    search = search_of(*parts, scoring="default", reranker=reranker)
    memory_without = memory_of(store, remembered=remembered)
    known = list(documents)
    rankings = judged_rankings(search, known, space.kbs(), memory_without, progress)
    scoring = fit_rankings(rankings, search.scoring)
    if not annotation_of(merged_texts("", known)).partial:
        judging = search_of(*parts, scoring=scoring, reranker=reranker)
        links_all = without_auto(unfitted).model_copy(update={"threshold": 0.0})
        linker = linker_of(judging, space, space.kbs(), links_all, store, registry)
        judge = fit_judge(linker, known, memory_without=memory_without, progress=progress)
        scoring = replace(
            scoring, spans=judge.weights, threshold=judge.threshold, links=judge.links
        )
    # Write the scoring, unless the space has another model by now: that one has its own.
    fingerprint = space.manifest.model.fingerprint

    def check() -> None:
        if space.folder.published_manifest().model.fingerprint != fingerprint:
            raise SpaceError(
                f"space {space.manifest.name!r} got another model while evidence was fitted to it",
                hint="Run the same command again: it fits the new model.",
            )

    write_scoring(place, fingerprint, scoring, check)
    return Fitted(scoring, rankings, search.scoring)
