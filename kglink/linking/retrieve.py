"""Candidates for mentions: the name index and the vector index asked together, KB by KB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
class _Surface:
    """A surface of a batch, however often it is mentioned."""

    text: str
    folded: str
    vector: FloatArray


@dataclass(frozen=True, slots=True)
class _Named:
    """What the names and the alias vectors of a KB say of one surface."""

    entities: IntArray
    name: FloatArray
    exact: FloatArray
    title: FloatArray
    case: FloatArray
    alias: FloatArray


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
        # Where the context counts for every candidate, it must be able to bring candidates too.
        self._asks_texts = space.has_rows("text") and (
            not space.has_rows("alias") or self._weights.context > 0
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
        contexts = [mention.context for mention in mentions]
        vectors = self._encoder.encode([*texts, *contexts])
        surfaces = [
            _Surface(text, fold(text) or text, vector)
            for text, vector in zip(texts, vectors, strict=False)
        ]
        answers: list[dict[str, list[Scored]]] = [{} for _ in mentions]
        for kb in kbs:
            segment = self._space.segments[kb]
            named = self._named(surfaces, kb, segment)
            if self._asks_texts:
                near = self._near_texts(mentions, vectors, place, kb, segment)
            for at, mention in enumerate(mentions):
                own = named[place[mention.surface]]
                vector = vectors[len(texts) + at] if mention.context else None
                if self._asks_texts:
                    own = self._with_more(own, near[at], surfaces[place[mention.surface]], segment)
                evidence = self._evidence(own, vector, segment)
                answers[at][kb] = self._ranked(
                    segment, own.entities, evidence, limit or self._candidates
                )
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

    def _named(self, surfaces: Sequence[_Surface], kb: str, segment: Segment) -> list[_Named]:
        wanted = self._candidates * _ROWS_PER_ENTITY
        similar = segment.names.similar([surface.folded for surface in surfaces], wanted)
        near: Iterable[IntArray] = [np.empty(0, dtype=np.int64)] * len(surfaces)
        if self._space.has_rows("alias"):
            queries = np.stack([surface.vector for surface in surfaces])
            _, hits = self._space.nearest(
                queries, kb, "alias", min(wanted, segment.row_count("alias"))
            )
            near = (segment.entity_of(rows[rows >= 0]) for rows in hits)
        return [
            self._named_one(surface, rows, cosines, entities, segment)
            for surface, (rows, cosines), entities in zip(surfaces, similar, near, strict=True)
        ]

    def _named_one(
        self,
        surface: _Surface,
        rows: IntArray,
        cosines: FloatArray,
        near: IntArray,
        segment: Segment,
    ) -> _Named:
        exact_rows = segment.names.exact(surface.folded)
        owners, similar = segment.entity_of(exact_rows), segment.entity_of(rows)
        entities = np.unique(np.concatenate([owners, similar, near]))
        exact = _best_of(entities, owners, np.ones(len(owners), dtype=np.float32))
        is_title = exact_rows == segment.alias_starts[owners]
        same_case = np.array(
            [segment.surfaces[row] == surface.text for row in exact_rows], dtype=np.float32
        )
        return _Named(
            entities=entities,
            name=np.maximum(_best_of(entities, similar, cosines), exact),
            exact=exact,
            title=_best_of(entities, owners, is_title.astype(np.float32)),
            case=_best_of(entities, owners, same_case),
            alias=self._alias_cosines(surface.vector, entities, segment),
        )

    def _alias_cosines(
        self, vector: FloatArray, entities: IntArray, segment: Segment
    ) -> FloatArray:
        """The nearest alias of each entity; its text where the space has no alias rows."""
        if not self._space.has_rows("alias"):
            return segment.vectors("text", entities) @ vector
        rows, owner = segment.aliases_of(entities)
        best = np.full(len(entities), -1, dtype=np.float32)
        np.maximum.at(best, owner, segment.vectors("alias", rows) @ vector)
        return best

    def _near_texts(
        self,
        mentions: Sequence[MentionQuery],
        vectors: FloatArray,
        place: Mapping[str, int],
        kb: str,
        segment: Segment,
    ) -> list[IntArray]:
        """For each mention the entities whose texts are near its context, or its surface."""
        first = len(vectors) - len(mentions)
        rows = [
            first + at if mention.context else place[mention.surface]
            for at, mention in enumerate(mentions)
        ]
        wanted = min(self._candidates, segment.row_count("text"))
        _, hits = self._space.nearest(vectors[rows], kb, "text", wanted)
        return [found[found >= 0] for found in hits]

    def _with_more(
        self, named: _Named, more: IntArray, surface: _Surface, segment: Segment
    ) -> _Named:
        """The same, with candidates that no name brought."""
        new = np.setdiff1d(more, named.entities)
        nothing = np.zeros(len(new), dtype=np.float32)
        entities = np.concatenate([named.entities, new])
        order = np.argsort(entities)
        parts = {
            "name": nothing, "exact": nothing, "title": nothing, "case": nothing,
            "alias": self._alias_cosines(surface.vector, new, segment),
        }  # fmt: skip
        joined = {
            name: np.concatenate([getattr(named, name), part])[order]
            for name, part in parts.items()
        }
        return _Named(entities=entities[order], **joined)

    def _evidence(self, named: _Named, context: FloatArray | None, segment: Segment) -> Evidence:
        """Add the context, for the candidates for which it counts."""
        cosines = np.zeros(len(named.entities), dtype=np.float32)
        if context is not None and self._space.has_rows("text"):
            counts = np.flatnonzero((named.exact > 0) | (self._weights.context > 0))
            if len(counts):
                cosines[counts] = segment.vectors("text", named.entities[counts]) @ context
        return Evidence(
            name=named.name,
            exact=named.exact,
            title=named.title,
            case=named.case,
            alias=named.alias,
            context=cosines,
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
