"""Entities whose names have rare words in common, found without comparing all with all.

The names of the smaller KB are kept as one sparse matrix; those of the larger one are multiplied
with it, chunk by chunk. Words that would make too many pairs of names are left out of the product
(they still count where a pair is weighed), which bounds its cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sparse_dot_topn import sp_matmul_topn

from kglink.arrays import FloatArray, IntArray
from kglink.overlap.neighbours import ranks
from kglink.plugins import PairedKBs, Side
from kglink.records import Progress
from kglink_plugins.overlap_evidence.word_space import WordSpace, read_names

#: Names of the smaller KB that are looked up for a name of the larger one.
MOST_HITS = 32
#: Less alike names are not proposed.
LEAST_ALIKE = 0.3


def similar_names(
    kbs: PairedKBs, space: WordSpace, *, k: int, max_block: int
) -> Iterator[tuple[str, str]]:
    """For each entity of the smaller KB the ``k`` of the larger one with the most similar names.

    The larger KB's entities propose in turn, as many as their share allows (`quotas`).
    """
    counts = space.entities
    if not min(counts.values()):
        return
    small: Side = "left" if counts["left"] <= counts["right"] else "right"
    large: Side = "right" if small == "left" else "left"
    of_small, of_large = quotas(k, counts[small], counts[large])
    usable = space.bearers[small] * space.bearers[large] <= max_block
    small_keys: list[str] = []
    owned, parts = [], []
    for chunk in read_names(kbs, small):
        owned.append(chunk.owners + len(small_keys))
        small_keys += chunk.keys
        parts.append(_only(space.words(chunk.names), usable))
    owners, matrix = np.concatenate(owned), sp.vstack(parts).T.tocsr().astype(np.float32)
    best = _Best(of_small)
    done = 0
    for chunk in read_names(kbs, large):
        product = sp_matmul_topn(
            _only(space.words(chunk.names, "plain"), usable),
            matrix,
            top_n=min(MOST_HITS, matrix.shape[1]),
            threshold=LEAST_ALIKE,
        ).tocoo()
        hits = _Hits(owners[product.col], chunk.owners[product.row], product.data)
        hits = hits.take(np.lexsort((-hits.scores, hits.small, hits.large)))
        # Of each pair of entities the best score.
        new = np.diff(hits.small, prepend=-1) != 0, np.diff(hits.large, prepend=-1) != 0
        hits = hits.take(new[0] | new[1])
        top = hits.take(ranks(hits.large, hits.small, hits.scores) < of_large)
        for one, other in zip(top.small.tolist(), top.large.tolist(), strict=True):
            yield _pair(small, small_keys[one], chunk.keys[other])
        best.offer(hits, chunk.keys)
        done += len(chunk.keys)
        kbs.report(Progress("comparing words", done, counts[large]))
    for one, key in best.pairs():
        yield _pair(small, small_keys[one], key)


def quotas(k: int, small: int, large: int) -> tuple[int, int]:
    """How many an entity of the smaller KB proposes, and one of the larger KB.

    Both KBs together propose at most ``2 * k`` pairs for each entity of the smaller one: of a
    large KB most entities have no counterpart in a small one.
    """
    return k, k * small // large if large else 0


class _Hits(NamedTuple):
    """Entities of the smaller side, entities of the larger side and scores."""

    small: IntArray
    large: IntArray
    scores: FloatArray

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> _Hits:
        """Some of them."""
        return _Hits(self.small[rows], self.large[rows], self.scores[rows])


class _Best:
    """The best ``k`` of the larger side for each entity of the smaller one, so far."""

    def __init__(self, k: int) -> None:
        self._k = k
        nobody = np.empty(0, np.int64)
        self._hits = _Hits(nobody, nobody, np.empty(0, np.float32))
        self._keys: list[str] = []

    def offer(self, hits: _Hits, keys: list[str]) -> None:
        """Take what is better; ``keys`` names the entities of the larger side."""
        every = _Hits(
            np.concatenate([self._hits.small, hits.small]),
            np.concatenate([self._hits.large, hits.large + len(self._keys)]),
            np.concatenate([self._hits.scores, hits.scores]),
        )
        kept = every.take(ranks(every.small, every.large, every.scores) < self._k)
        names = self._keys + keys
        used, renumbered = np.unique(kept.large, return_inverse=True)
        self._keys = [names[number] for number in used.tolist()]
        self._hits = kept._replace(large=renumbered.astype(np.int64))

    def pairs(self) -> Iterator[tuple[int, str]]:
        """All of them: the number of the one, the key of the other."""
        numbers = zip(self._hits.small.tolist(), self._hits.large.tolist(), strict=True)
        return ((one, self._keys[other]) for one, other in numbers)


def _only(matrix: sp.csr_matrix, usable: npt.NDArray[np.bool_]) -> sp.csr_matrix:
    matrix.data[~usable[matrix.indices]] = 0
    matrix.eliminate_zeros()
    return matrix


def _pair(small: Side, small_key: str, large_key: str) -> tuple[str, str]:
    return (small_key, large_key) if small == "left" else (large_key, small_key)
