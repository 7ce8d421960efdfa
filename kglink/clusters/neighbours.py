"""The nearest other mentions of each mention: exactly, or of very many by cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.processor import import_faiss

#: Up to this number, all vectors are compared with each other; it takes seconds.
MOST_EXACT = 50_000
#: Of more, a vector is compared with those of its nearest cells, about this number in all.
_COMPARED = 2_000
_TRAINED_ON = 64
#: Similarities that are made at once, in numbers.
_BLOCK = 1 << 24


class Neighbours(NamedTuple):
    """For each mention its nearest others, best first; -1 and -inf where fewer exist."""

    numbers: IntArray
    similarities: FloatArray
    note: str = ""
    """That the answer is approximate, where it is."""

    def first(self, k: int) -> Neighbours:
        """The first ``k`` of each."""
        return self._replace(numbers=self.numbers[:, :k], similarities=self.similarities[:, :k])


def nearest_others(vectors: FloatArray, k: int, *, most_exact: int = MOST_EXACT) -> Neighbours:
    """The ``k`` nearest other rows of each row by inner product; equal ones by their number.

    More than ``most_exact`` rows are searched by cells, which finds nearly all of them.
    """
    count = len(vectors)
    found = Neighbours(
        np.full((count, k), -1, dtype=np.int64), np.full((count, k), -np.inf, dtype=np.float32)
    )
    if not k or count < 2:
        return found
    if count > most_exact:
        return _by_cells(vectors, k, found)
    wanted = min(k, count - 1)
    rows = max(1, _BLOCK // count)
    for start in range(0, count, rows):
        block = vectors[start : start + rows] @ vectors.T
        own = np.arange(len(block))
        block[own, own + start] = -np.inf
        numbers = _best(block, wanted)
        found.numbers[start : start + rows, :wanted] = numbers
        found.similarities[start : start + rows, :wanted] = np.take_along_axis(block, numbers, 1)
    return found


def _best(block: FloatArray, wanted: int) -> IntArray:
    """The places of the best of each row, equal ones by their number: ties at the border too."""
    least = np.partition(block, -wanted, axis=1)[:, -wanted]
    rows, numbers = np.nonzero(block >= least[:, None])
    order = np.lexsort((numbers, -block[rows, numbers], rows))
    starts = np.searchsorted(rows, np.arange(len(block)))
    best: IntArray = numbers[order][starts[:, None] + np.arange(wanted)]
    return best


def _by_cells(vectors: FloatArray, k: int, found: Neighbours) -> Neighbours:
    faiss = import_faiss()
    count, dim = vectors.shape
    cells = int(2 * count**0.5)
    quantizer = faiss.IndexFlatIP(dim)
    index = faiss.IndexIVFFlat(quantizer, dim, cells, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = 17
    index.cp.niter = 8
    index.cp.max_points_per_centroid = _TRAINED_ON
    chosen = np.random.default_rng(17).choice(count, min(count, cells * _TRAINED_ON), replace=False)
    index.train(np.ascontiguousarray(vectors[np.sort(chosen)]))
    index.add(vectors)
    index.nprobe = max(2, min(cells, _COMPARED * cells // count))
    rows = 1 << 14
    for start in range(0, count, rows):
        similar, numbers = index.search(vectors[start : start + rows], k + 1)
        own = np.arange(start, start + len(numbers))[:, None]
        # Each row but itself; what was not found, or is a tie too many, goes last.
        similar = np.where((numbers == own) | (numbers < 0), -np.inf, similar)
        order = np.lexsort((numbers, -similar), axis=1)[:, :k]
        similar = np.take_along_axis(similar, order, 1)
        found.similarities[start : start + rows] = similar
        found.numbers[start : start + rows] = np.where(
            np.isneginf(similar), -1, np.take_along_axis(numbers, order, 1)
        )
    share = index.nprobe / cells
    note = f"{count:,} mentions: each was compared with about {share:.1%} of the others"
    return found._replace(note=note)
