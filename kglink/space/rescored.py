"""An index of rounded codes, whose finds are compared anew by the vectors of the segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kglink.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from pathlib import Path

    from kglink.plugins import RowRange, VectorIndex

#: So many rows are wanted at least: of few, chance decides which codes look best.
_LEAST = 16
#: How many rows are compared anew at a time: they bound the memory of a search.
_COMPARED = 1 << 14


def rescored(index: VectorIndex, vectors_of: Callable[[IntArray], FloatArray]) -> VectorIndex:
    """The index as a space searches it: ``vectors_of`` gives the vectors of some of its rows."""
    return index if index.oversampling == 1 else _RescoredIndex(index, vectors_of)


class _RescoredIndex:
    exact = False
    oversampling = 1

    def __init__(self, index: VectorIndex, vectors_of: Callable[[IntArray], FloatArray]) -> None:
        self.size = index.size
        self._index, self._vectors_of = index, vectors_of

    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        if k < 1:
            return self._index.search(queries, k, ranges)  # which refuses it
        fetched = max(k, min(max(k, _LEAST) * self._index.oversampling, self.size))
        step = max(1, _COMPARED // max(1, fetched))
        parts = [
            self._search(queries[at : at + step], k, fetched, ranges)
            for at in range(0, max(1, len(queries)), step)
        ]
        return np.concatenate([part[0] for part in parts]), np.concatenate([p[1] for p in parts])

    def save(self, path: Path) -> None:
        self._index.save(path)

    def _search(
        self, queries: FloatArray, k: int, fetched: int, ranges: Sequence[RowRange] | None
    ) -> tuple[FloatArray, IntArray]:
        _, rows = self._index.search(queries, fetched, ranges)
        scores = np.einsum("qkd,qd->qk", self._vectors_of(rows), queries)
        scores[rows < 0] = -np.inf
        order = np.lexsort((np.where(rows < 0, self.size, rows), -scores), axis=1)[:, :k]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
