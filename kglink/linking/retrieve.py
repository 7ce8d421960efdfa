"""Candidates for mentions: the name index and the vector index asked together, KB by KB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.linking.contexts import Contexts, PooledContexts, TokenContexts, TokenSearchOf
from kglink.linking.measure import Measure, measure_of
from kglink.linking.named import Named, NameSearch, Surface
from kglink.linking.queries import MentionQuery, Queries, QueryVectors
from kglink.linking.scoring import (
    ALIAS_SCORING,
    MENTION_SCORING,
    NAME_SCORING,
    TRAINED_SCORING,
    Evidence,
    Scoring,
)
from kglink.records import EntityId
from kglink.space.segment import Segment
from kglink.space.space import Space
from kglink.text.fold import fold

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
#: What finds and orders candidates.
EvidenceKind = Literal["all", "vectors", "names"]


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate before anything about it is read from the store."""

    id: EntityId
    title: str
    score: float
    popularity: float
    evidence: dict[str, float]


class _Use(NamedTuple):
    """Which evidence a search uses."""

    names: bool
    name_vectors: bool
    contexts: bool
    """Whether mentions in their texts are compared with the texts of entities."""
    texts_bring: bool
    """Whether texts bring candidates, or are compared for those that names brought."""


class Retriever:
    """Finds and scores the candidates of mentions in a space.

    Without ``scoring`` it is that of a plain or of a trained encoder which was fitted on no
    mentions; for evidence of one kind alone there is but one. ``token_search`` is for a model
    that compares tokens; without it such a model's pooled vectors are compared.
    """

    def __init__(
        self,
        space: Space,
        queries: Queries,
        *,
        candidates: int,
        scoring: Scoring | None = None,
        evidence: EvidenceKind = "all",
        token_search: TokenSearchOf | None = None,
    ) -> None:
        self._space = space
        self._queries = queries
        self._candidates = candidates
        self.scoring = self._chosen_scoring(scoring, evidence)
        self._use = self._chosen_use(evidence)
        trained = queries.trained
        compares_tokens = trained is not None and trained.compares_tokens
        self._token_search = token_search if compares_tokens else None
        cosine = trained is None or trained.searches_by_cosine
        self._measure = Measure() if evidence == "names" else measure_of(space, cosine=cosine)
        self._name_search = NameSearch(
            space, self._measure, candidates, self._use.names, self._use.name_vectors
        )

    def retrieve(
        self, mentions: Sequence[MentionQuery], kbs: Sequence[str], *, limit: int | None = None
    ) -> list[dict[str, list[Scored]]]:
        """For each mention and KB the scored candidates, best first, at most ``limit`` of them.

        Equal scores are ordered by popularity, then by key; between KBs the caller keeps the
        order of ``kbs``.
        """
        if not mentions:
            return []
        texts = list(dict.fromkeys(mention.surface for mention in mentions))
        place = {text: at for at, text in enumerate(texts)}
        read = self._read(texts, mentions)
        surfaces = [
            Surface(text, fold(text) or text, None if read.names is None else read.names[at])
            for at, text in enumerate(texts)
        ]
        own = [surfaces[place[mention.surface]] for mention in mentions]
        contexts = self._contexts(read, own)
        answers: list[dict[str, list[Scored]]] = [{} for _ in mentions]
        for kb in kbs:
            segment = self._space.segments[kb]
            by_surface = self._name_search.find(surfaces, kb)
            near = contexts.near(kb, self._candidates) if self._use.texts_bring else None
            for at, mention in enumerate(mentions):
                named = by_surface[place[mention.surface]]
                if near is not None:
                    named = self._name_search.with_more(named, near[at], own[at], segment)
                evidence = self._evidence(named, at, contexts, segment)
                answers[at][kb] = self._ranked(
                    segment, named.entities, evidence, limit or self._candidates
                )
        return answers

    def count_truncated(self, mentions: Sequence[MentionQuery]) -> int:
        """How many mentions are longer, alone or with their context, than the encoder reads."""
        if not (self._use.name_vectors or self._use.contexts):
            return 0
        return self._queries.count_truncated(mentions)

    def _chosen_scoring(self, scoring: Scoring | None, evidence: EvidenceKind) -> Scoring:
        trained = self._queries.trained is not None
        if evidence == "names":
            return NAME_SCORING
        if evidence == "vectors":
            return MENTION_SCORING if trained and self._space.has_rows("text") else ALIAS_SCORING
        return scoring or (TRAINED_SCORING if trained else Scoring())

    def _chosen_use(self, evidence: EvidenceKind) -> _Use:
        has_texts, has_names = self._space.has_rows("text"), self._space.has_rows("alias")
        weights, alone = self.scoring.weights, evidence == "vectors"
        if evidence == "names":
            return _Use(names=True, name_vectors=False, contexts=False, texts_bring=False)
        if self.scoring is MENTION_SCORING:
            return _Use(names=False, name_vectors=False, contexts=True, texts_bring=True)
        return _Use(
            names=not alone,
            name_vectors=alone or not has_texts or weights.alias > 0,
            contexts=not alone and has_texts,
            # Where the context counts for every candidate, it must be able to bring candidates.
            texts_bring=has_texts and (not has_names or weights.context > 0),
        )

    def _read(self, texts: Sequence[str], mentions: Sequence[MentionQuery]) -> QueryVectors:
        if not (self._use.name_vectors or self._use.contexts):
            return QueryVectors(None, [None] * len(mentions))
        return self._queries.read(
            texts,
            mentions,
            names=self._use.name_vectors,
            contexts=self._use.contexts and self._token_search is None,
            tokens=self._use.contexts and self._token_search is not None,
        )

    def _contexts(self, read: QueryVectors, own: Sequence[Surface]) -> Contexts:
        if self._token_search is not None and read.tokens is not None:
            return TokenContexts(self._space, self._measure, read.tokens, self._token_search)
        names = [surface.vector for surface in own]
        return PooledContexts(self._space, self._measure, read.contexts, names)

    def _evidence(self, named: Named, at: int, contexts: Contexts, segment: Segment) -> Evidence:
        """Add the context, for the candidates for which it counts."""
        values = np.zeros(len(named.entities), dtype=np.float32)
        if self._use.contexts:
            counts = np.flatnonzero((named.exact > 0) | (self.scoring.weights.context > 0))
            found = contexts.scores(at, named.entities[counts], segment) if len(counts) else None
            if found is not None:
                values[counts] = found
        return Evidence(
            name=named.name,
            exact=named.exact,
            title=named.title,
            case=named.case,
            alias=named.alias,
            context=values,
        )

    def _ranked(
        self, segment: Segment, entities: IntArray, evidence: Evidence, limit: int
    ) -> list[Scored]:
        scores = self.scoring.weights.score(evidence)
        popularity = segment.popularity[entities]
        order = np.lexsort((entities, -popularity, -scores))
        return [
            Scored(
                id=EntityId(segment.kb, segment.keys[entities[at]]),
                title=segment.titles[entities[at]],
                score=float(scores[at]),
                popularity=float(popularity[at]),
                evidence=evidence.of(at),
            )
            for at in order[:limit]
        ]
