"""The positive of each mention of one entity: its parent in the tree that explains it (ArboEL).

The graph of an entity has an arc from the entity to each of its mentions and arcs both ways
between all mentions. The paper prunes it: arcs are visited from the least similar on, and each is
removed whose target the entity still reaches. Similarity is symmetric here, so what is left is the
spanning tree of most similarity, which is grown from the entity.

Ties: the arc between mentions goes before that of the entity, then that of the smaller pair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from kglink.arrays import FloatArray, IntArray

#: What the tree over a mention and one other spans: these two alone (``query``, the paper), or all
#: mentions of the entity, with such a pair of each as the only arcs between them (``cluster``, the
#: released code).
NnScope = Literal["query", "cluster"]

#: The parent of a mention that its entity explains.
ENTITY = -1
#: The similarities of a cluster are kept while a tree grows, if they take no more bytes than this.
MOST_BYTES = 1 << 29
#: Rows of similarities that are made at once.
_BLOCK = 1024


class Tree(NamedTuple):
    """The parents of the mentions of one entity."""

    parents: IntArray
    """By mention: another mention, or `ENTITY`."""
    note: str = ""
    """What could not be done as fast as usual, and why."""


def full_tree(entity: FloatArray, mentions: FloatArray, *, most_bytes: int = MOST_BYTES) -> Tree:
    """The tree over an entity and all its mentions.

    ``entity`` holds the similarity of each mention to the entity, ``mentions`` a vector for each.
    Where all similarities take more than ``most_bytes``, each row is made when the tree needs it:
    the same tree, several times slower, and the answer says so.
    """
    count = _checked(entity, mentions)
    needed = count * count * 4
    if needed <= most_bytes:
        return Tree(_grown(entity, (mentions @ mentions.T).__getitem__))
    note = (
        f"{count:,} mentions of one entity: their similarities take {needed / 1e9:.1f} GB, "
        "and are made row by row"
    )
    return Tree(_grown(entity, lambda row: mentions @ mentions[row]), note)


def nearest_parents(entity: FloatArray, mentions: FloatArray, scope: NnScope = "query") -> IntArray:
    """The parents in the trees over a mention, its nearest other mention, and the entity (1-NN)."""
    count = _checked(entity, mentions)
    others = np.full(count, ENTITY, dtype=np.int64)
    if count > 1:
        for start in range(0, count, _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, count))
            similar = mentions[rows] @ mentions.T
            similar[np.arange(len(rows)), rows] = -np.inf
            others[rows] = similar.argmax(axis=1)
    return _of_pairs(entity, mentions, others, scope)


def random_parents(
    entity: FloatArray, mentions: FloatArray, rng: np.random.Generator, scope: NnScope = "query"
) -> IntArray:
    """The same with a random other mention of the entity in the nearest one's place (1-Rand)."""
    count = _checked(entity, mentions)
    others = np.full(count, ENTITY, dtype=np.int64)
    if count > 1:
        others = rng.integers(count - 1, size=count)
        others += others >= np.arange(count)
    return _of_pairs(entity, mentions, others, scope)


def _of_pairs(
    entity: FloatArray, mentions: FloatArray, others: IntArray, scope: NnScope
) -> IntArray:
    """The other mention, where both arcs of the way over it are better than the entity's own."""
    if len(others) < 2:
        return others
    between = np.einsum("md,md->m", mentions, mentions[others])
    if scope == "cluster":
        return _grown(entity, _paired(others, between))
    return np.where(entity < np.minimum(entity[others], between), others, ENTITY)


def _paired(others: IntArray, between: FloatArray) -> Callable[[int], FloatArray]:
    """Rows of similarities where each mention is paired with one other alone."""
    count = len(others)
    sources = np.concatenate([np.arange(count), others])
    order = sources.argsort(kind="stable")
    ends = np.concatenate([others, np.arange(count)])[order]
    similar = np.concatenate([between, between])[order]
    starts = sources[order].searchsorted(np.arange(count + 1))

    def similar_to(mention: int) -> FloatArray:
        row = np.full(count, -np.inf, np.float32)
        own = slice(starts[mention], starts[mention + 1])
        row[ends[own]] = similar[own]
        return row

    return similar_to


def _grown(entity: FloatArray, similar_to: Callable[[int], FloatArray]) -> IntArray:
    """Prim's tree from the entity on; of equal arcs the one that pruning would remove last."""
    count = len(entity)
    numbers = np.arange(count, dtype=np.int64)
    parents = np.full(count, ENTITY, dtype=np.int64)
    best = entity.astype(np.float32)
    # Among equals the entity's arcs stay before all others, then those of the larger pair.
    places = numbers + count * count
    for _ in range(count):
        equals = np.flatnonzero(best == best.max())
        new = int(equals[places[equals].argmax()])
        best[new] = -np.inf
        row = similar_to(new)
        place = np.minimum(numbers, new) * count + np.maximum(numbers, new)
        better = (row > best) | ((row == best) & (place > places))
        better &= best > -np.inf
        best[better], places[better], parents[better] = row[better], place[better], new
    return parents


def _checked(entity: FloatArray, mentions: FloatArray) -> int:
    if entity.shape != (len(mentions),):
        raise ValueError(f"{len(mentions)} mentions, and similarities of shape {entity.shape}")
    if not (np.isfinite(entity).all() and np.isfinite(mentions).all()):
        raise ValueError("similarities and vectors must be finite")
    return len(mentions)
