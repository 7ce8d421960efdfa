"""What the linking room gets from a workspace: queries, a retriever, a detector, a reranker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from kglink.config import LinkSection
from kglink.errors import UsageError
from kglink.linking.contexts import TokenSearchOf
from kglink.linking.linker import Linker, joint_ranking
from kglink.linking.queries import MentionQuery, PlainQueries, Queries, TrainedQueries
from kglink.linking.retrieve import Retriever, Scored
from kglink.linking.scoring import SEARCH_SCORING, Scoring
from kglink.linking.scoring_file import read_scoring, write_scoring
from kglink.records import Document, OnProgress
from kglink.space.alias_names import SpaceNames
from kglink.space.space import Space
from kglink.workspace.encoder import LazyEncoder, towers_of

if TYPE_CHECKING:
    from kglink.plugins import Detector, Registry
    from kglink.store import Store


def queries_of(encoder: LazyEncoder, window_chars: int) -> Queries:
    """Mentions as the encoder reads them."""
    towers = towers_of(encoder)
    return TrainedQueries(towers) if towers else PlainQueries(encoder, window_chars)


def token_search_of(encoder: LazyEncoder, registry: Registry) -> TokenSearchOf | None:
    """How the token matrices of a model that compares tokens are searched: exactly."""
    trained = encoder.trained
    if trained is None or not trained.compares_tokens:
        return None
    from kglink.space.token_search import ExactTokenSearch

    scorer = registry.create("scorer", trained.scorer, trained.scorer_settings)
    return cache(lambda tokens: ExactTokenSearch(tokens, scorer))


def retriever_of(
    space: Space,
    encoder: LazyEncoder,
    settings: LinkSection,
    registry: Registry,
    *,
    candidates: int = 0,
) -> Retriever:
    """A retriever as the settings want it; ``candidates`` per KB at least are found."""
    queries = queries_of(encoder, settings.window_chars)
    return Retriever(
        space,
        queries,
        candidates=max(settings.candidates, settings.top_k, candidates),
        scoring=read_scoring(space.folder.path, space.manifest.model.fingerprint)
        if queries.trained
        else None,
        evidence=settings.evidence,
        token_search=None if settings.evidence == "names" else token_search_of(encoder, registry),
    )


def linker_of(
    retriever: Retriever,
    space: Space,
    kbs: Sequence[str],
    settings: LinkSection,
    store: Store,
    registry: Registry,
) -> Linker:
    """A linker to some KBs of a space."""
    reranker = (
        registry.create("reranker", settings.reranker, settings.reranker_settings)
        if settings.reranker
        else None
    )
    detector = partial(_detector, space, kbs, settings, registry)
    return Linker(retriever, detector, store, kbs, settings, reranker=reranker)


def search(
    space: Space,
    encoder: LazyEncoder,
    registry: Registry,
    text: str,
    k: int,
    kbs: Sequence[str],
) -> list[Scored]:
    """The entities of some KBs that a text names or describes, best first."""
    if k < 1:
        raise UsageError(f"k = {k}: a search has at least one answer")
    if not text:
        raise UsageError("a search needs a text", hint="A name, or a description in words.")
    towers = towers_of(encoder)
    queries = TrainedQueries(towers) if towers else PlainQueries(encoder, 0, repeat_alone=True)
    retriever = Retriever(
        space,
        queries,
        candidates=k,
        scoring=SEARCH_SCORING,
        token_search=token_search_of(encoder, registry),
    )
    found = retriever.retrieve([MentionQuery(text, 0, len(text))], kbs)
    return joint_ranking(found[0], kbs)[:k]


def fit_space(
    space: Space,
    encoder: LazyEncoder,
    settings: LinkSection,
    registry: Registry,
    documents: Iterable[Document],
    progress: OnProgress,
) -> Scoring:
    """Fit the scoring of a trained model's space, and keep it."""
    from kglink.linking.fit import fit_scoring

    towers = towers_of(encoder)
    if towers is None:
        raise UsageError(
            f"space {space.folder.name!r} is of an untrained model: its weights are fixed",
            hint="`kglink finetune` trains one.",
        )
    candidates = max(settings.candidates, settings.top_k)
    retriever = Retriever(
        space,
        TrainedQueries(towers),
        candidates=candidates,
        token_search=token_search_of(encoder, registry),
    )
    scoring = fit_scoring(retriever, documents, space.kbs(), progress=progress)
    write_scoring(space.folder.path, space.manifest.model.fingerprint, scoring)
    return scoring


def _detector(
    space: Space, kbs: Sequence[str], settings: LinkSection, registry: Registry
) -> Detector:
    names = SpaceNames(space, kbs)
    return registry.create("detector", settings.detector, settings.detector_settings, names)
