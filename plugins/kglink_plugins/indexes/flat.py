"""The exact index: every row compared with every query."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kglink.arrays import FloatArray, IntArray
from kglink.errors import SpaceError
from kglink.plugins import RowRange
from kglink_plugins.indexes.rows import (
    best_first,
    check_queries,
    configure_faiss,
    faiss,
    merge_ranges,
    no_rows,
    read_index,
    row_count,
    selector_of,
    spool_rows,
    threads_for,
    write_index,
)
from kglink_plugins.plugin import FlatSettings

if TYPE_CHECKING:
    import torch

    from kglink_plugins.indexes.gpu import GpuRows

#: Rows fetched beyond ``k``, so that a few equal scores at the border can be told apart.
_MARGIN = 8
#: Queries answered together, and rows scored anew together: they bound the memory of a search.
_QUERIES, _RESCORED = 256, 16384
#: Ranges that are searched one by one.
_MOST_SEARCHES = 8
#: How far two ways of summing one inner product may lie apart, in units of both norms' product.
_ROUNDING = 2e-6


class FlatBackend:
    """Builds and loads `FlatIndex`."""

    def __init__(self, settings: FlatSettings | None = None) -> None:
        configure_faiss()

    def build(self, batches: Iterable[FloatArray], dim: int) -> FlatIndex:
        """Index the rows of all batches, in their order."""
        index = faiss.IndexFlatIP(dim)
        with tempfile.TemporaryFile() as file:
            index.add(spool_rows(batches, dim, file))
        return FlatIndex(index)

    def load(self, path: Path) -> FlatIndex:
        """Open a file that ``save`` wrote, memory-mapped."""
        index = read_index(path)
        if not isinstance(index, faiss.IndexFlat):
            raise SpaceError(
                f"{path}: an index of kind {type(index).__name__}, not a flat one",
                hint="Open it with the back end that the manifest names.",
            )
        return FlatIndex(index)


class FlatIndex:
    """All rows in fp32; answers are exact, and the same for a query alone or among others.

    Where this process encodes on a GPU, rows are compared there too, if they fit into its memory.
    """

    exact = True
    oversampling = 1

    def __init__(self, index: Any) -> None:
        self.size = int(index.ntotal)
        self.dim = int(index.d)
        self._index = index
        # The index's own memory as a matrix, nothing copied.
        self._rows: FloatArray = np.empty((0, self.dim), np.float32)
        if self.size:
            stored = faiss.rev_swig_ptr(index.get_xb(), self.size * self.dim)
            self._rows = stored.reshape(self.size, self.dim)
        self._placed: GpuRows | None = None
        self._is_placed = False
        self._placing = Lock()

    def search(
        self, queries: npt.ArrayLike, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Scores and row numbers, best first, (n, k) each; -inf and -1 where fewer exist."""
        checked = check_queries(queries, k, self.dim)
        spans = merge_ranges(ranges, self.size)
        total = row_count(spans)
        if not total or not len(checked):
            return no_rows(len(checked), k)
        fetch = min(k + _MARGIN, total)
        step = max(1, min(_QUERIES, _RESCORED // fetch))
        parts = [
            self._search(checked[start : start + step], k, fetch, spans)
            for start in range(0, len(checked), step)
        ]
        return np.concatenate([part[0] for part in parts]), np.concatenate([p[1] for p in parts])

    def save(self, path: Path) -> None:
        """Write one file."""
        write_index(self._index, path)

    def _search(
        self, queries: FloatArray, k: int, fetch: int, spans: Sequence[RowRange]
    ) -> tuple[FloatArray, IntArray]:
        """Fetch candidates, score them one way for all, and fetch more where ``k`` is a tie."""
        found, rows = self._fetch(queries, fetch, spans)
        vectors = self._rows[rows]
        # The product's last bits depend on a row's place in a block; a plain sum's do not.
        scores = np.einsum("qkd,qd->qk", vectors, queries)
        best, best_rows = best_first(scores, rows, k)
        if fetch < row_count(spans):
            longest = np.sqrt(np.einsum("qkd,qkd->qk", vectors, vectors).max(axis=1))
            slack = _ROUNDING * longest * np.linalg.norm(queries, axis=1)
            more = min(2 * fetch, row_count(spans))
            for row in np.flatnonzero(best[:, k - 1] <= found[:, -1] + slack):
                best[row], best_rows[row] = self._search(queries[row : row + 1], k, more, spans)
        return best, best_rows

    def _fetch(
        self, queries: FloatArray, count: int, spans: Sequence[RowRange]
    ) -> tuple[FloatArray, IntArray]:
        """The ``count`` best rows of all spans together, by scores that may be slightly rounded.

        One search for each span, if there are few: faiss keeps to matrix products for a single
        range, and gives them up for a union of ranges.
        """
        if (placed := self._rows_on_gpu()) is not None:
            found = placed.nearest(queries, count, spans)
            if found is not None:
                return found
            self._placed = None  # its memory is full; from now on the processor compares
        if len(spans) > _MOST_SEARCHES:
            return self._fetch_selected(queries, count, selector_of(spans, self.size))
        parts = [
            self._fetch_selected(queries, min(count, row_count([s])), selector_of([s], self.size))
            for s in spans
        ]
        scores = np.concatenate([part[0] for part in parts], axis=1)
        rows = np.concatenate([part[1] for part in parts], axis=1)
        return best_first(scores, rows, count)

    def place(self, device: torch.device) -> None:
        """Compare rows on this device from now on, unless they are too many for its memory."""
        from kglink_plugins.indexes.gpu import GpuRows

        self._placed = GpuRows.of(self._rows, device)
        self._is_placed = True

    def _rows_on_gpu(self) -> GpuRows | None:
        """The rows on the GPU that this process computes on; None: they are on none."""
        if not self._is_placed and "torch" in sys.modules:
            from kglink_plugins.indexes.gpu import device_in_use

            with self._placing:
                if not self._is_placed and (device := device_in_use()) is not None:
                    self.place(device)
        return self._placed

    def _fetch_selected(
        self, queries: FloatArray, count: int, selector: Any
    ) -> tuple[FloatArray, IntArray]:
        params = faiss.SearchParameters(sel=selector)
        with threads_for(len(queries) * self.size * self.dim):
            scores, rows = self._index.search(queries, count, params=params)
        return scores, rows
