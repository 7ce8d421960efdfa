"""Clustering of mentions and entities, against the rules of the paper carried out literally."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pytest

from kglink.clusters.clustering import (
    NO_ENTITY,
    ClusteringChoice,
    Clusters,
    MentionGraph,
    Mode,
    choices,
    cluster,
)
from kglink.clusters.neighbours import Neighbours, nearest_others
from kglink_papers.clusters import best_choice, threshold_grid

FloatArray = npt.NDArray[np.float32]
#: A source, which is ("e", entity) or a mention; a target; and what orders it among others.
Arc = tuple[object, int]


def graph_of(
    entities: Iterable[int], sims: Iterable[float], near: dict[Arc, float]
) -> MentionGraph:
    """A graph with some arcs between mentions."""
    own = np.array(list(entities), np.int64)
    rows: list[list[tuple[float, int]]] = [[] for _ in own]
    for (source, target), value in near.items():
        assert isinstance(source, int)
        rows[target].append((-value, source))
    k = max((len(row) for row in rows), default=0)
    found = Neighbours(np.full((len(own), k), -1), np.full((len(own), k), -np.inf, np.float32))
    for at, row in enumerate(rows):
        for place, (value, source) in enumerate(sorted(row)):
            found.numbers[at, place], found.similarities[at, place] = source, -value
    return MentionGraph(own, np.array(list(sims), np.float32), found)


def random_graph(rng: np.random.Generator, values: int) -> MentionGraph:
    """Few values make many ties, and zeros."""
    count, k = int(rng.integers(1, 9)), int(rng.integers(0, 4))
    mentions = rng.integers(-values, values + 1, (count, 2)).astype(np.float32)
    entities = rng.integers(-1, 4, count)
    sims = rng.integers(-values, values + 1, count).astype(np.float32)
    return MentionGraph(entities, sims, nearest_others(mentions, k))


def arcs_of(graph: MentionGraph, threshold: float) -> dict[Arc, tuple[float, ...]]:
    """All arcs, with what is sorted by to visit the worst first."""
    arcs: dict[Arc, tuple[float, ...]] = {}
    near = graph.neighbours
    for v, entity in enumerate(graph.entities.tolist()):
        if entity != NO_ENTITY and graph.similarities[v] >= threshold:
            arcs[("e", entity), v] = (float(graph.similarities[v]), 1, 0, v, 0)
        for u, value in zip(near.numbers[v].tolist(), near.similarities[v].tolist(), strict=True):
            if u >= 0 and value >= threshold:
                arcs[u, v] = (value, 0, min(u, v), max(u, v), u)
    return arcs


def reached(arcs: Iterable[Arc], undirected: bool) -> set[object]:
    """What entities reach."""
    arcs = list(arcs)
    seen: set[object] = {source for source, _ in arcs if isinstance(source, tuple)}
    while True:
        more: set[object] = {v for u, v in arcs if u in seen}
        if undirected:
            more |= {u for u, v in arcs if v in seen}
        if more <= seen:
            return seen
        seen |= more


def components(count: int, arcs: Iterable[Arc]) -> list[frozenset[object]]:
    """By mention all that is connected with it."""
    groups: dict[object, frozenset[object]] = {v: frozenset([v]) for v in range(count)}
    for u, v in arcs:
        joined = groups.get(u, frozenset([u])) | groups[v]
        for one in joined:
            groups[one] = joined
    return [groups[v] for v in range(count)]


def literal(graph: MentionGraph, mode: Mode, threshold: float) -> Clusters:
    """The rules of the paper, one arc after the other."""
    arcs = arcs_of(graph, threshold)
    if mode == "independent":
        arcs = {arc: order for arc, order in arcs.items() if isinstance(arc[0], tuple)}
    worst_first = sorted(arcs, key=lambda arc: arcs[arc])
    undirected = mode == "undirected"
    left = set(worst_first)
    if undirected:  # first the spanning forest of best arcs
        count = len(graph.entities)
        left = set()
        for u, v in reversed(worst_first):
            together = components(count, left)[v]
            if u not in together:
                left.add((u, v))
    for arc in [one for one in worst_first if one in left]:
        left.remove(arc)
        seen = reached(left, undirected)
        ends = [arc[1], arc[0]] if undirected else [arc[1]]
        if not all(end in seen or isinstance(end, tuple) for end in ends):
            left.add(arc)
    own = components(len(graph.entities), left)
    entities, labels = [], []
    for v, together in enumerate(own):
        held = {one[1] for one in together if isinstance(one, tuple)}
        assert len(held) <= 1, "no cluster has two entities"
        entities.append(held.pop() if held else NO_ENTITY)
        labels.append(min(one for one in together if isinstance(one, int)))
        assert v in together
    same = {e: min(v for v, other in enumerate(entities) if other == e) for e in entities}
    labels = [same[e] if e != NO_ENTITY else one for e, one in zip(entities, labels, strict=True)]
    return Clusters(np.array(entities), np.array(labels), np.array(labels))


@pytest.mark.parametrize("mode", ["independent", "directed", "undirected"])
@pytest.mark.parametrize("values", [2, 30], ids=["many ties", "few ties"])
def test_clusters_are_what_the_rules_leave(mode: Mode, values: int) -> None:
    rng = np.random.default_rng(values)
    for _ in range(250):
        graph = random_graph(rng, values)
        for threshold in (-np.inf, 0.0, 1.0):
            k = 0 if mode == "independent" else graph.neighbours.numbers.shape[1]
            found = cluster(graph, ClusteringChoice(mode, k, threshold))
            expected = literal(graph, mode, threshold)
            assert found.entities.tolist() == expected.entities.tolist()
            assert found.labels.tolist() == expected.labels.tolist()
            meant = np.where(found.through < 0, NO_ENTITY, graph.entities[found.through])
            assert found.entities.tolist() == meant.tolist()


def test_the_papers_small_example() -> None:
    """C-2 is 3, 3-2 is 7, B-3 is 9: the arc of C is deleted, and mention 2 is linked to B."""
    b, c = 5, 6
    graph = graph_of([c, b], [3, 9], {(1, 0): 7})
    assert cluster(graph, ClusteringChoice("directed", 1)).entities.tolist() == [b, b]
    assert cluster(graph, ClusteringChoice("undirected", 1)).entities.tolist() == [b, b]
    assert cluster(graph, ClusteringChoice("independent")).entities.tolist() == [c, b]
    # Below a threshold nothing explains mention 2, with others or alone.
    strict = cluster(graph, ClusteringChoice("directed", 1, threshold=8))
    assert strict.entities.tolist() == [NO_ENTITY, b]


def test_mentions_of_nothing_known_are_clusters_of_their_own() -> None:
    graph = graph_of([NO_ENTITY] * 3 + [4], [0, 0, 0, 9], {(0, 1): 5, (1, 2): 1, (3, 2): 0.5})
    found = cluster(graph, ClusteringChoice("directed", 2, threshold=1))
    assert found.entities.tolist() == [NO_ENTITY, NO_ENTITY, NO_ENTITY, 4]
    assert found.labels.tolist() == [0, 0, 0, 3]
    assert cluster(graph, ClusteringChoice("directed", 2, 2)).labels.tolist() == [0, 0, 2, 3]


def test_none_one_and_all_the_same() -> None:
    for mode in ("independent", "directed", "undirected"):
        choice = ClusteringChoice(mode, 2)
        none = MentionGraph(
            np.empty(0, np.int64),
            np.empty(0, np.float32),
            nearest_others(np.empty((0, 3), "f4"), 2),
        )
        assert cluster(none, choice).labels.tolist() == []
        one = graph_of([7], [1], {})
        assert cluster(one, choice).entities.tolist() == [7]
        same = MentionGraph(
            np.full(6, 2), np.ones(6, np.float32), nearest_others(np.ones((6, 3), np.float32), 2)
        )
        assert cluster(same, choice).entities.tolist() == [2] * 6
        assert cluster(same, choice).labels.tolist() == [0] * 6


def test_nearest_others_are_those_of_a_plain_sort() -> None:
    rng = np.random.default_rng(2)
    vectors = rng.integers(-2, 3, (70, 2)).astype(np.float32)
    found = nearest_others(vectors, 5)
    products = vectors @ vectors.T
    for at in range(70):
        expected = sorted((-products[at, other], other) for other in range(70) if other != at)[:5]
        assert found.numbers[at].tolist() == [other for _, other in expected]
        assert found.similarities[at].tolist() == [-value for value, _ in expected]
    few = nearest_others(vectors[:3], 5)
    assert (few.numbers[:, 2:] == -1).all()
    assert (few.numbers[:, :2] >= 0).all()


def test_very_many_are_searched_by_cells_and_it_is_said() -> None:
    rng = np.random.default_rng(4)
    middles = rng.normal(size=(60, 16))
    vectors = (np.repeat(middles, 50, axis=0) + rng.normal(size=(3000, 16)) * 0.1).astype("f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    exact = nearest_others(vectors, 4)
    near = nearest_others(vectors, 4, most_exact=100)
    assert "3,000 mentions" in near.note
    assert not exact.note
    assert (near.numbers != np.arange(3000)[:, None]).all()
    assert np.mean(near.numbers == exact.numbers) > 0.98
    again = nearest_others(vectors, 4, most_exact=100)
    assert (again.numbers == near.numbers).all()


def test_mode_k_and_threshold_are_chosen_on_known_mentions() -> None:
    """Mention 0 is right by itself and wrong with others: the choice has to see that."""
    gold = np.array([6, 5, 5])
    graph = graph_of([6, 5, 6], [3, 9, 2], {(1, 0): 2.5, (1, 2): 7})

    def accuracy(found: Clusters) -> float:
        return float((found.entities == gold).mean())

    tried = choices(("independent", "directed"), (1,), (-np.inf,))
    chosen = best_choice(graph, tried, accuracy)
    assert (chosen, accuracy(cluster(graph, chosen))) == (ClusteringChoice("directed", 1), 1.0)
    assert len(choices(("independent", "directed"), (1, 2), (0.0, 0.5))) == 6


def test_thresholds_are_the_centres_of_groups() -> None:
    values = np.array([0.1, 0.11, 0.12, 0.9, 0.91, -np.inf], np.float32)
    assert threshold_grid(values, 2) == pytest.approx([0.11, 0.905], abs=1e-6)
    assert threshold_grid(np.empty(0, np.float32)) == []
