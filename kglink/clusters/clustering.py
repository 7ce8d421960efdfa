"""Clusters of mentions and entities: what one mention means helps others that are like it (ArboEL).

Each mention has an arc from its nearest entity and from its nearest other mentions. The graph is
pruned until each cluster holds one entity at most; its entity is what all its mentions mean, and a
cluster without one is of something that no KB has.

Where two arcs are equal, that of an entity stays rather than that of a mention, then that of the
larger pair: the same order as in the trees of training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.arrays import FloatArray, IntArray
from kglink.clusters.neighbours import Neighbours

#: ``independent``: each mention by itself; ``directed``: the tree along which each mention is best
#: explained; ``undirected``: the spanning forest of most similarity, cut between its entities.
Mode = Literal["independent", "directed", "undirected"]

#: The entity of a mention that none explains.
NO_ENTITY = -1


class MentionGraph(NamedTuple):
    """Mentions, the nearest entity of each, and its nearest other mentions."""

    entities: IntArray
    """A number of the nearest entity of each mention; `NO_ENTITY`: none."""
    similarities: FloatArray
    """How similar it is."""
    neighbours: Neighbours


class Clusters(NamedTuple):
    """The entity and the cluster of each mention."""

    entities: IntArray
    """The entity of each mention; `NO_ENTITY`: none, or none that is similar enough."""
    labels: IntArray
    """By mention a number that all mentions of its cluster share: the first of them."""
    through: IntArray
    """The mention whose nearest entity that is, itself or another; -1: none."""


class ClusteringChoice(NamedTuple):
    """How a graph is clustered."""

    mode: Mode
    k: int = 0
    """How many nearest other mentions count."""
    threshold: float = -np.inf
    """Less similar arcs count nothing."""


class _Arcs(NamedTuple):
    """The arcs that count, best first; ``sources`` of an entity's arc: the number of mentions."""

    sources: IntArray
    targets: IntArray


def cluster(graph: MentionGraph, choice: ClusteringChoice) -> Clusters:
    """The clusters of a graph."""
    count = len(graph.entities)
    arcs = _arcs(graph, choice)
    if choice.mode == "undirected":
        roots, labels = _forest(count, arcs)
    else:
        roots, labels = _explained(count, arcs)
    entities = np.where(roots < 0, NO_ENTITY, graph.entities[roots]) if count else roots
    return Clusters(
        entities, _first_of(np.where(entities == NO_ENTITY, labels, len(labels) + entities)), roots
    )


def _arcs(graph: MentionGraph, choice: ClusteringChoice) -> _Arcs:
    """The arcs that are similar enough, in the order in which they are preferred."""
    count = len(graph.entities)
    k = 0 if choice.mode == "independent" else choice.k
    near = graph.neighbours.first(k)
    targets, places = np.nonzero((near.numbers >= 0) & (near.similarities >= choice.threshold))
    known = (graph.entities != NO_ENTITY) & (graph.similarities >= choice.threshold)
    own = np.flatnonzero(known)
    sources = np.concatenate([near.numbers[targets, places], np.full(len(own), count)])
    similar = np.concatenate([near.similarities[targets, places], graph.similarities[own]])
    targets = np.concatenate([targets, own])
    # The number of mentions stands for all entities: their pairs are the largest of all.
    first, second = np.maximum(sources, targets), np.minimum(sources, targets)
    pairs = np.where(sources == count, first * (count + 1) + second, second * (count + 1) + first)
    order = np.lexsort((-sources, -pairs, -similar))
    return _Arcs(sources[order], targets[order])


def _explained(count: int, arcs: _Arcs) -> tuple[IntArray, IntArray]:
    """For each mention the one through whose entity it is explained; -1: through none.

    Pruning removes the worst arcs that can be spared, so what is left is the tree whose worst arc
    is best, then its second worst, and so on. That one is found by contraction (Edmonds): the best
    arc into each mention stays; where these arcs run in a circle, it becomes one node.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order

    # Which mentions some entity reaches; the last place stands for the entities.
    ones = np.ones(len(arcs.sources), np.int8)
    graph = coo_matrix((ones, (arcs.sources, arcs.targets)), shape=(count + 1, count + 1))
    order = breadth_first_order(graph.tocsr(), count, return_predecessors=False)
    reached = np.zeros(count + 1, dtype=bool)
    reached[order] = True
    alone = np.flatnonzero(~reached[arcs.targets])  # such mentions keep all their arcs
    labels = _components(count, arcs.sources[alone], arcs.targets[alone])
    left = np.flatnonzero(reached[arcs.targets] & reached[arcs.sources])
    node = np.arange(count + 1)
    while True:
        sources, targets = node[arcs.sources[left]], node[arcs.targets[left]]
        best = np.full(count + 1, -1, dtype=np.int64)
        best[targets[::-1]] = left[::-1]  # the last one that is set is the best one
        parents = np.full(count + 1, count, dtype=np.int64)
        entered = np.flatnonzero(best >= 0)
        parents[entered] = node[arcs.sources[best[entered]]]
        last: IntArray = np.unique(_last(parents))
        circle: IntArray = last[last != count]
        if not len(circle):
            break
        first = _components(count, parents[circle], circle)
        node[:count] = first[node[:count]]
        # A node that an entity explains best needs no other arc.
        done = parents[targets] == count
        left = left[~(done & (sources != count)) & (node[sources] != node[targets])]
    holders = np.full(count + 1, -1, dtype=np.int64)
    explained = entered[parents[entered] == count]
    holders[explained] = arcs.targets[best[explained]]
    through = _last(np.where(parents == count, np.arange(count + 1), parents))
    return np.where(reached[:count], holders[through[node[:count]]], -1), labels


def _last(parents: IntArray) -> IntArray:
    """Where each node comes to, going from parent to parent as often as there are nodes."""
    for _ in range(len(parents).bit_length()):
        parents = parents[parents]
    return parents


def _forest(count: int, arcs: _Arcs) -> tuple[IntArray, IntArray]:
    """The same by the spanning forest: cut where both ends of an arc reach an entity otherwise.

    With all entities as one node that is its spanning tree of best arcs.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import minimum_spanning_tree

    pairs = np.minimum(arcs.sources, arcs.targets) * (count + 1)
    pairs += np.maximum(arcs.sources, arcs.targets)
    _, first = np.unique(pairs, return_index=True)  # either direction of a pair, the better one
    low = np.minimum(arcs.sources[first], arcs.targets[first])
    high = np.maximum(arcs.sources[first], arcs.targets[first])
    # Ranks for weights: the same tree, no ties, and no arc that is lost because it weighs nothing.
    weighted = coo_matrix((first + 1.0, (low, high)), shape=(count + 1, count + 1))
    tree = minimum_spanning_tree(weighted.tocsr()).tocoo()
    low, high = tree.row.astype(np.int64), tree.col.astype(np.int64)
    between = high < count
    labels = _components(count, low[between], high[between])
    holders = low[~between]
    roots = np.full(count, -1, dtype=np.int64)
    roots[labels[holders]] = holders
    return roots[labels] if count else roots, labels


def _components(count: int, low: IntArray, high: IntArray) -> IntArray:
    """By mention the first mention of its connected component."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    links = coo_matrix((np.ones(len(low), np.int8), (low, high)), shape=(count, count))
    _, numbers = connected_components(links, directed=False)
    return _first_of(numbers)


def _first_of(groups: npt.NDArray[np.integer]) -> IntArray:
    """The first place of each value's group."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    found: IntArray = first.astype(np.int64)[inverse.reshape(-1)]
    return found


def choices(
    modes: Sequence[Mode], ks: Sequence[int], thresholds: Sequence[float]
) -> list[ClusteringChoice]:
    """All of them, the plainest first, so that of equals it is chosen."""
    return [
        ClusteringChoice(mode, k, threshold)
        for mode in modes
        for k in ((0,) if mode == "independent" else ks)
        for threshold in thresholds
    ]
