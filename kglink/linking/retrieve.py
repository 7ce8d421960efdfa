"""Candidates for mentions: the name index and the vector index asked together, KB by KB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kglink.linking.scoring import Evidence, FusionWeights
from kglink.records import EntityId
from kglink.space.segment import Segment
from kglink.space.space import Space
from kglink.text.fold import fold

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

#: Several rows belong to one entity: ask for more rows than entities are wanted.
_ROWS_PER_ENTITY = 2


class QueryEncoder(Protocol):
    """What retrieval needs of an encoder."""

    @property
    def max_tokens(self) -> int:
        """The longest text that is read to its end."""
        ...

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many of some texts are longer than that."""
        ...

    def encode(self, texts: list[str]) -> FloatArray:
        """One vector of length one for each text."""
        ...


@dataclass(frozen=True, slots=True)
class MentionQuery:
    """A mention's surface, and the text around it (empty: none)."""

    surface: str
    context: str = ""


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate before anything about it is read from the store."""

    id: EntityId
    title: str
    score: float
    popularity: float
    evidence: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Queries:
    """A batch of mentions, folded and encoded."""

    surfaces: Sequence[str]
    folded: Sequence[str]
    surface_vectors: FloatArray
    context_vectors: FloatArray
    has_context: Sequence[bool]


class Retriever:
    """Finds and scores the candidates of mentions in a space."""

    def __init__(
        self,
        space: Space,
        encoder: QueryEncoder,
        *,
        candidates: int,
        weights: FusionWeights | None = None,
    ) -> None:
        self._space = space
        self._encoder = encoder
        self._candidates = candidates
        self._weights = weights or FusionWeights()

    def retrieve(
        self, mentions: Sequence[MentionQuery], kbs: Sequence[str], *, limit: int | None = None
    ) -> list[dict[str, list[Scored]]]:
        """For each mention and KB the scored candidates, best first, at most ``limit`` of them.

        Equal scores are ordered by popularity, then by key; between KBs the caller keeps the
        order of ``kbs``.
        """
        if not mentions:
            return []
        queries = self._encode(mentions)
        answers: list[dict[str, list[Scored]]] = [{} for _ in mentions]
        for kb in kbs:
            segment = self._space.segments[kb]
            for answer, entities, evidence in zip(
                answers, *self._of_kb(queries, kb, segment), strict=True
            ):
                ranked = self._ranked(segment, entities, evidence, limit or self._candidates)
                answer[kb] = ranked
        return answers

    def count_truncated(self, mentions: Sequence[MentionQuery]) -> int:
        """How many mentions are longer, alone or with their context, than the encoder reads."""
        limit = self._encoder.max_tokens
        # A token is a character at least, and two are marks: a short text needs no counting.
        long = [
            max(mention.surface, mention.context, key=len)
            for mention in mentions
            if max(len(mention.surface), len(mention.context)) > limit - 2
        ]
        return self._encoder.count_truncated(long) if long else 0

    def _encode(self, mentions: Sequence[MentionQuery]) -> _Queries:
        surfaces = [mention.surface for mention in mentions]
        use_context = self._space.has_rows("text")
        contexts = [mention.context or mention.surface for mention in mentions]
        vectors = self._encoder.encode(surfaces + (contexts if use_context else []))
        return _Queries(
            surfaces=surfaces,
            folded=[fold(surface) or surface for surface in surfaces],
            surface_vectors=vectors[: len(mentions)],
            context_vectors=vectors[-len(mentions) :],
            has_context=[use_context and bool(mention.context) for mention in mentions],
        )

    def _of_kb(
        self, queries: _Queries, kb: str, segment: Segment
    ) -> tuple[list[IntArray], list[Evidence]]:
        similar = segment.names.similar(queries.folded, self._candidates * _ROWS_PER_ENTITY)
        nearest = self._nearest(queries, kb, segment)
        entities, evidences = [], []
        for at, (rows, cosines) in enumerate(similar):
            exact_rows = segment.names.exact(queries.folded[at])
            found = np.unique(
                np.concatenate(
                    [segment.entity_of(exact_rows), segment.entity_of(rows), nearest[at]]
                )
            )
            entities.append(found)
            name = _best_of(found, segment.entity_of(rows), cosines)
            evidences.append(self._evidence(queries, at, segment, found, name, exact_rows))
        return entities, evidences

    def _nearest(self, queries: _Queries, kb: str, segment: Segment) -> list[IntArray]:
        """For each mention the entities whose vectors are near its surface or its context."""
        k = self._candidates
        found: list[list[IntArray]] = [[] for _ in queries.surfaces]
        if self._space.has_rows("alias"):
            wanted = min(k * _ROWS_PER_ENTITY, segment.row_count("alias"))
            _, hits = self._space.nearest(queries.surface_vectors, kb, "alias", wanted)
            for parts, rows in zip(found, hits, strict=True):
                parts.append(segment.entity_of(rows[rows >= 0]))
        if self._space.has_rows("text"):
            wanted = min(k, segment.row_count("text"))
            _, hits = self._space.nearest(queries.context_vectors, kb, "text", wanted)
            for parts, rows in zip(found, hits, strict=True):
                parts.append(rows[rows >= 0])
        return [np.concatenate(parts) for parts in found]

    def _evidence(
        self,
        queries: _Queries,
        at: int,
        segment: Segment,
        found: IntArray,
        name: FloatArray,
        exact_rows: IntArray,
    ) -> Evidence:
        owners = segment.entity_of(exact_rows)
        is_title = exact_rows == segment.alias_starts[owners]
        same_case = np.array(
            [segment.surfaces[row] == queries.surfaces[at] for row in exact_rows], dtype=np.float32
        )
        exact = _best_of(found, owners, np.ones(len(owners), dtype=np.float32))
        vector = queries.surface_vectors[at]
        if self._space.has_rows("alias"):
            rows, owner = segment.aliases_of(found)
            alias = np.full(len(found), -1, dtype=np.float32)
            np.maximum.at(alias, owner, segment.vectors("alias", rows) @ vector)
        else:
            alias = segment.vectors("text", found) @ vector
        if queries.has_context[at]:
            context = segment.vectors("text", found) @ queries.context_vectors[at]
        else:
            context = np.zeros(len(found), dtype=np.float32)
        return Evidence(
            name=np.maximum(name, exact),
            exact=exact,
            title=_best_of(found, owners, is_title.astype(np.float32)),
            case=_best_of(found, owners, same_case),
            alias=alias,
            context=context,
        )

    def _ranked(
        self, segment: Segment, entities: IntArray, evidence: Evidence, limit: int
    ) -> list[Scored]:
        scores = self._weights.score(evidence)
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


def _best_of(found: IntArray, owners: IntArray, values: FloatArray) -> FloatArray:
    """For each entity of ``found`` (sorted) its largest value, 0 where it has none."""
    best = np.zeros(len(found), dtype=np.float32)
    np.maximum.at(best, np.searchsorted(found, owners), values)
    return best
