"""A space of which some entities alone are found, such as those of a branch.

Whatever finds candidates asks a space and its segments: names, vectors, keys. A limited one
answers as if it held no other entities. Numbers of rows stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np

from kglink.files.digest import digest_of
from kglink.plugins import RowRange
from kglink.space.manifest import RowKind
from kglink.space.segment import FloatArray, IntArray, Segment
from kglink.space.space import Space
from kglink.space.words import WordIndex

#: So many rows are compared one by one, whatever the index; of more the index is asked.
MOST_COMPARED = 1 << 18
_BLOCK = 1 << 14
#: How far two ways of summing one inner product may lie apart, in units of both norms' product.
_ROUNDING = 2e-6


def limited_space(space: Space, keys: Mapping[str, Iterable[str]]) -> Space:
    """The space with only these entities of some KBs, whose keys come in order."""
    segments = {kb: _limited(space.segments[kb], wanted) for kb, wanted in keys.items()}
    return LimitedSpace(space, segments)


class LimitedSpace(Space):
    """A space of which some KBs are limited."""

    def __init__(self, whole: Space, limited: Mapping[str, LimitedSegment]) -> None:
        self.__dict__.update(whole.__dict__)
        self.segments = {**whole.segments, **limited}

    def nearest(
        self, queries: FloatArray, kb: str, kind: RowKind, k: int
    ) -> tuple[FloatArray, IntArray]:
        """The nearest rows of one KB and kind: products and row numbers within the segment.

        Exact for up to `MOST_COMPARED` rows; of more the index is asked, within their ranges.
        """
        segment = self.segments[kb]
        if not isinstance(segment, LimitedSegment) or not self.has_rows(kind, kb):
            return super().nearest(queries, kb, kind, k)
        rows = segment.rows if kind == "text" else segment.alias_rows
        if len(rows) <= MOST_COMPARED:
            return nearest_of(queries, segment, kind, rows, k)
        start = self._spans[kb, kind].start
        scores, found = self.index.search(queries, k, ranges_of(rows + start))
        return scores, np.where(found >= 0, found - start, -1)


class LimitedSegment(Segment):
    """A segment of which some entities alone are found."""

    def __init__(self, whole: Segment, rows: IntArray) -> None:
        self.__dict__.update(whole.__dict__)
        self.rows: IntArray = rows
        self.alias_rows: IntArray
        self.alias_rows, _ = whole.aliases_of(rows)
        self.fingerprint = digest_of([whole.fingerprint, rows.tobytes().hex()])
        self.names = whole.names.limited(self.alias_rows)
        self._whole = whole
        self.__dict__.pop("words", None)

    @cached_property
    def words(self) -> WordIndex | None:
        """The index of the words of these entities."""
        return self._whole.words.limited(self.rows) if self._whole.words else None

    def row(self, key: str) -> int:
        """The number of an entity, -1 for one that is not there or not to be found."""
        row = super().row(key)
        at = int(np.searchsorted(self.rows, row))
        return row if at < len(self.rows) and self.rows[at] == row else -1


def _limited(segment: Segment, keys: Iterable[str]) -> LimitedSegment:
    """Both in the order of keys: each is read once."""
    wanted = iter(keys)
    key = next(wanted, None)
    rows = []
    for row, own in enumerate(segment.keys):
        while key is not None and key < own:  # came into the store after the space was built
            key = next(wanted, None)
        if key is None:
            break
        if key == own:
            rows.append(row)
    return LimitedSegment(segment, np.array(rows, dtype=np.int64))


def nearest_of(
    queries: FloatArray, segment: Segment, kind: RowKind, rows: IntArray, k: int
) -> tuple[FloatArray, IntArray]:
    """Of some rows of a segment those that are nearest, compared one by one.

    Scores and row numbers, best first, (n, k) each, -inf and -1 where fewer exist. Equal scores:
    the smaller row first.
    """
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    found = np.full((len(queries), k), -1, dtype=np.int64)
    lengths = np.linalg.norm(queries, axis=1)
    for first in range(0, len(rows), _BLOCK):
        some = rows[first : first + _BLOCK]
        vectors = segment.vectors(kind, some)
        products = queries @ vectors.T
        slack = _ROUNDING * lengths * np.linalg.norm(vectors, axis=1).max()
        if len(some) > k:
            worst = np.partition(products, -k, axis=1)[:, -k] - slack
        else:
            worst = np.full(len(queries), -np.inf, dtype=np.float32)
        worst = np.maximum(worst, scores[:, -1] - slack)
        for at, least in enumerate(worst):
            near = np.flatnonzero(products[at] >= least)
            # The product's last bits depend on a row's place in a block; a plain sum's do not.
            exact = np.einsum("rd,d->r", vectors[near], queries[at])
            both = np.concatenate([scores[at], exact])
            numbers = np.concatenate([found[at], some[near]])
            best = np.lexsort((numbers, -both))[:k]
            scores[at], found[at] = both[best], numbers[best]
    return scores, found


def ranges_of(rows: IntArray) -> list[RowRange]:
    """Ascending numbers as ranges."""
    ends = np.flatnonzero(np.diff(rows) > 1)
    starts = rows[np.concatenate([[0], ends + 1])]
    stops = rows[np.concatenate([ends, [len(rows) - 1]])] + 1
    return [RowRange(int(start), int(stop)) for start, stop in zip(starts, stops, strict=True)]
