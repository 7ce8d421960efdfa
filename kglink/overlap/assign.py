"""One-to-one assignment: the pairs that are likeliest together when no entity is in two.

A pair weighs the log of its odds against the least probability that is kept, so that more pairs
are better than fewer and surer ones better than guesses. Entities that no pair joins, directly or
through others, cannot stand in each other's way: each such component is solved by itself, exactly
where it is small, and by taking the surest pair again and again where it is large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

#: Cells of the matrix that is solved exactly; beyond it pairs are taken greedily.
MOST_CELLS = 1_000_000
_LEAST_ODDS = 1e-6
#: A pair counts a little however close it is to the least probability.
_SMALL = 1e-3


def assign_one_to_one(
    lefts: Sequence[str], rights: Sequence[str], probabilities: Sequence[float], least: float
) -> npt.NDArray[np.bool_]:
    """Which of the pairs (left i, right i) are kept."""
    kept = np.zeros(len(lefts), bool)
    if not len(lefts):
        return kept
    _, left = np.unique(np.asarray(lefts, object), return_inverse=True)
    _, right = np.unique(np.asarray(rights, object), return_inverse=True)
    weights = _weights(np.asarray(probabilities, np.float64), least)
    order = np.argsort(_components(left, right), kind="stable")
    labels = _components(left, right)[order]
    for rows in np.split(order, np.flatnonzero(np.diff(labels)) + 1):
        kept[rows[_best(left[rows], right[rows], weights[rows])]] = True
    return kept


def _weights(probabilities: FloatArray, least: float) -> FloatArray:
    """Log odds above those of ``least``, never below a little."""
    bounded = np.clip(probabilities, _LEAST_ODDS, 1 - _LEAST_ODDS)
    floor = min(max(least, _LEAST_ODDS), 1 - _LEAST_ODDS)
    odds = np.log(bounded / (1 - bounded)) - math.log(floor / (1 - floor))
    weights: FloatArray = np.maximum(odds, 0) + _SMALL
    return weights


def _components(left: IntArray, right: IntArray) -> IntArray:
    """For each pair the number of its connected component."""
    size = int(left.max()) + 1, int(right.max()) + 1
    edges = coo_matrix((np.ones(len(left)), (left, right + size[0])), shape=(sum(size),) * 2)
    labels: IntArray = connected_components(edges, directed=False)[1]
    return labels[left]


def _best(left: IntArray, right: IntArray, weights: FloatArray) -> IntArray:
    """The pairs of one component that are kept."""
    if len(left) == 1:
        return np.zeros(1, np.int64)
    _, row = np.unique(left, return_inverse=True)
    _, column = np.unique(right, return_inverse=True)
    rows, columns = int(row.max()) + 1, int(column.max()) + 1
    if rows * columns > MOST_CELLS:
        return _greedy(row, column, weights)
    matrix = np.zeros((rows, columns))
    matrix[row, column] = weights
    chosen = linear_sum_assignment(matrix, maximize=True)
    taken = set(zip(*(side.tolist() for side in chosen), strict=True))
    # A cell without a pair is worth nothing: it stands for leaving both entities alone.
    pairs = enumerate(zip(row.tolist(), column.tolist(), strict=True))
    return np.array([at for at, pair in pairs if pair in taken], np.int64)


def _greedy(row: IntArray, column: IntArray, weights: FloatArray) -> IntArray:
    rows: set[int] = set()
    columns: set[int] = set()
    kept = []
    for at in np.lexsort((column, row, -weights)).tolist():
        if row[at] not in rows and column[at] not in columns:
            rows.add(int(row[at]))
            columns.add(int(column[at]))
            kept.append(at)
    return np.array(kept, np.int64)


def ranks(entities: IntArray, others: IntArray, scores: npt.NDArray[np.float32]) -> IntArray:
    """For each pair how many of the entity's pairs are better; equal ones by number."""
    order = np.lexsort((others, -scores, entities))
    in_order = entities[order]
    found = np.empty(len(entities), np.int64)
    found[order] = np.arange(len(order)) - np.searchsorted(in_order, in_order)
    return found
