"""An index as a space asks it: its answers are checked.

The finds of an index of rounded codes are compared anew by the vectors of the segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.errors import PluginError, errors_of

if TYPE_CHECKING:
    from pathlib import Path

    from kglink.plugins import RowRange, VectorIndex

#: So many rows are wanted at least: of few, chance decides which codes look best.
_LEAST = 16
#: How many rows are compared anew at a time: they bound the memory of a search.
_COMPARED = 1 << 14


class AskedIndex:
    """An index of the back end ``name``; ``vectors_of`` gives the vectors of some of its rows."""

    oversampling = 1

    def __init__(
        self, name: str, index: VectorIndex, vectors_of: Callable[[IntArray], FloatArray]
    ) -> None:
        self.size, self._index, self._vectors_of = index.size, index, vectors_of
        self.exact = index.exact and index.oversampling == 1
        self._name = f"index back end {name!r}"

    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Scores and row numbers, best first, as `VectorIndex` says."""
        if k < 1 or self._index.oversampling == 1:
            return self._asked(queries, k, ranges)
        fetched = max(k, min(max(k, _LEAST) * self._index.oversampling, self.size))
        step = max(1, _COMPARED // max(1, fetched))
        parts = [
            self._search(queries[at : at + step], k, fetched, ranges)
            for at in range(0, max(1, len(queries)), step)
        ]
        return np.concatenate([part[0] for part in parts]), np.concatenate([p[1] for p in parts])

    def save(self, path: Path) -> None:
        """Write the index as its back end does."""
        self._index.save(path)

    def _search(
        self, queries: FloatArray, k: int, fetched: int, ranges: Sequence[RowRange] | None
    ) -> tuple[FloatArray, IntArray]:
        _, rows = self._asked(queries, fetched, ranges)
        scores = np.einsum("qkd,qd->qk", self._vectors_of(rows), queries)
        scores[rows < 0] = -np.inf
        order = np.lexsort((np.where(rows < 0, self.size, rows), -scores), axis=1)[:, :k]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)

    def _asked(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None
    ) -> tuple[FloatArray, IntArray]:
        """What the index answers, which may be a plugin of anybody's."""
        with errors_of(self._name):
            scores, rows = self._index.search(queries, k, ranges)
            if scores.shape != (len(queries), k) or rows.shape != scores.shape:
                what = f"scores and rows of the shapes {scores.shape} and {rows.shape}"
            elif np.isnan(scores).any():
                what = "scores that are no numbers"
            elif rows.dtype.kind not in "iu":
                what = f"row numbers of the type {rows.dtype}"
            elif np.any((rows < -1) | (rows >= self.size)):
                what = f"rows of {self.size:,} that are not there"
            else:
                return scores, rows.astype(np.int64, copy=False)
        raise PluginError(
            f"{self._name} gave {what} to {len(queries)} queries with k = {k}",
            hint="A search gives scores and row numbers of the shape (n, k), -1 where fewer exist.",
        )
