"""Mentions in their texts compared with the texts of entities.

Products are cosines, or brought into their measure: a model that was trained with plain products
has vectors of any length. What orders its candidates is the product; to be added up with other
evidence it is divided by the length of the mention's vector, the same for all candidates, and by
the mean length of the space's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, get_args

import numpy as np

from kglink.arrays import FloatArray, IntArray, widened
from kglink.errors import DamagedSpaceError
from kglink.space.manifest import RowKind
from kglink.space.segment import Segment
from kglink.space.space import Space

if TYPE_CHECKING:
    from kglink.models.runtime import TokenMatrices
    from kglink.space.token_rows import TokenRows
    from kglink.space.token_search import TokenSearch

#: The search in the token matrices of a KB.
TokenSearchOf = Callable[["TokenRows"], "TokenSearch"]


#: The number of rows of each KB that give the mean length.
_SAMPLE = 1024


@dataclass(frozen=True, slots=True)
class Measure:
    """How the products of a space are brought into the measure of cosines."""

    lengths: dict[RowKind, float] = field(default_factory=dict)
    """The mean length of the rows of each kind; empty: all vectors have the length one."""
    tokens: float = 1.0
    """The mean length of the vectors of tokens."""

    def evidence(self, products: FloatArray, query: FloatArray, kind: RowKind) -> FloatArray:
        """Bring a query's products to cosine scale."""
        if not self.lengths:
            return products
        return products / np.float32(max(float(np.linalg.norm(query)) * self.lengths[kind], 1e-9))


def measure_of(space: Space, *, cosine: bool) -> Measure:
    """The measure of a space."""
    if cosine:
        return Measure()
    segments = space.segments.values()
    lengths: dict[RowKind, float] = {}
    for kind in get_args(RowKind):
        rows = [(one, spread(one.row_count(kind))) for one in segments if kind in one.info.rows]
        if rows:
            lengths[kind] = _mean_length([one.vectors(kind, own) for one, own in rows])
    tokens = [one.tokens for one in segments if one.tokens is not None]
    samples = [widened(one.take(spread(len(one))).bits) for one in tokens]
    return Measure(lengths, _mean_length(samples) if samples else 1.0)


def _mean_length(vectors: Sequence[FloatArray]) -> float:
    return float(np.concatenate([np.linalg.norm(one, axis=1) for one in vectors]).mean())


def spread(count: int, most: int = _SAMPLE) -> IntArray:
    """At most so many rows of all, spread evenly, and always the same."""
    wanted = min(count, most)
    return np.arange(wanted) * count // max(1, wanted)


class Contexts(Protocol):
    """A batch of mentions in their texts, compared with the texts of entities."""

    def near(self, kb: str, k: int) -> list[IntArray]:
        """For each mention the entities of one KB that are nearest."""
        ...

    def scores(self, mention: int, entities: IntArray, segment: Segment) -> FloatArray | None:
        """How near some entities are; None where the mention or the KB has no text to compare."""
        ...


@dataclass(frozen=True, slots=True)
class PooledContexts:
    """One vector for each mention and each entity."""

    space: Space
    measure: Measure
    vectors: Sequence[FloatArray | None]
    instead: Sequence[FloatArray | None]
    """Fallback query where a mention has no context: its name's vector."""
    _read: dict[str, tuple[IntArray, FloatArray]] = field(default_factory=dict)
    """By KB the entities that were asked last, and their vectors: names come again in a text."""

    def near(self, kb: str, k: int) -> list[IntArray]:
        """For each mention the entities of one KB that are nearest."""
        queries = [
            own if own is not None else other
            for own, other in zip(self.vectors, self.instead, strict=True)
        ]
        asked = {at: query for at, query in enumerate(queries) if query is not None}
        found = [np.empty(0, dtype=np.int64)] * len(queries)
        if asked and self.space.has_rows("text", kb):
            wanted = min(k, self.space.segments[kb].row_count("text"))
            _, hits = self.space.nearest(np.stack([*asked.values()]), kb, "text", wanted)
            for at, rows in zip(asked, hits, strict=True):
                found[at] = rows[rows >= 0]
        return found

    def scores(self, mention: int, entities: IntArray, segment: Segment) -> FloatArray | None:
        """How near some entities are."""
        vector = self.vectors[mention]
        if vector is None or "text" not in segment.info.rows:
            return None
        read = self._read.get(segment.kb)
        if read is None or not np.array_equal(read[0], entities):
            read = self._read[segment.kb] = entities, segment.vectors("text", entities)
        return self.measure.evidence(read[1] @ vector, vector, "text")


@dataclass(frozen=True, slots=True)
class TokenContexts:
    """The vectors of all tokens of each mention and each entity, as the model's scorer has them."""

    space: Space
    measure: Measure
    matrices: TokenMatrices
    search: TokenSearchOf

    def near(self, kb: str, k: int) -> list[IntArray]:
        """For each mention the entities of one KB that are nearest."""
        segment = self.space.segments[kb]
        if not segment.info.rows:
            return [np.empty(0, dtype=np.int64)] * (len(self.matrices.offsets) - 1)
        tokens = tokens_of(segment)
        search = self.search(tokens)
        _, hits = search.search(self.matrices, min(k, len(tokens)), segment.rows)
        return [rows[rows >= 0] for rows in hits]

    def scores(self, mention: int, entities: IntArray, segment: Segment) -> FloatArray | None:
        """How near some entities are: the mean, over a mention's tokens, of their best products."""
        if not segment.info.rows:
            return None
        start, stop = self.matrices.offsets[mention : mention + 2]
        search = self.search(tokens_of(segment))
        sums = search.scores(self.matrices, mention, entities)
        if search.cosine or not self.measure.lengths:
            return sums / np.float32(max(stop - start, 1))
        lengths = np.linalg.norm(widened(self.matrices.bits[start:stop]), axis=1)
        return sums / np.float32(max(float(lengths.sum()) * self.measure.tokens, 1e-9))


def tokens_of(segment: Segment) -> TokenRows:
    """The token matrices of a segment, which one of a model that compares tokens has."""
    if segment.tokens is None:
        raise DamagedSpaceError(f"{segment.folder}: has no token matrices")
    return segment.tokens
