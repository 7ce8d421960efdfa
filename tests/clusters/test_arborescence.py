"""The tree of an entity's mentions, against the paper's rule carried out literally."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pytest

from kglink.clusters.arborescence import (
    ENTITY,
    full_tree,
    nearest_parents,
    random_parents,
)

FloatArray = npt.NDArray[np.float32]
#: The paper's example: e-m1, e-m2, e-m3, e-m4, then m1m2, m1m3, m1m4, m2m3, m2m4, m3m4.
EXAMPLE = (10, 5, 2, 7), {(0, 1): 8, (0, 2): 3, (0, 3): 1, (1, 2): 9, (1, 3): 4, (2, 3): 6}


def pruned(entity: FloatArray, between: FloatArray) -> list[int]:
    """The rule: visit arcs from the worst on, remove each whose target is reached without it."""
    count = len(entity)
    arcs = {(ENTITY, m): (float(entity[m]), 1, 0, m) for m in range(count)}
    for u in range(count):
        for v in range(count):
            if u != v:
                arcs[u, v] = (float(between[u, v]), 0, min(u, v), max(u, v))
    left = set(arcs)
    for arc in sorted(arcs, key=lambda arc: (*arcs[arc], arc)):
        left.remove(arc)
        if arc[1] not in reached(left):
            left.add(arc)
    parents = dict.fromkeys(range(count), -2)
    for u, v in left:
        assert parents[v] == -2, "every mention keeps one parent"
        parents[v] = u
    return [parents[v] for v in range(count)]


def reached(arcs: Iterable[tuple[int, int]]) -> set[int]:
    """What the entity reaches."""
    seen, waiting = {ENTITY}, [ENTITY]
    arcs = list(arcs)
    while waiting:
        at = waiting.pop()
        for u, v in arcs:
            if u == at and v not in seen:
                seen.add(v)
                waiting.append(v)
    return seen


def vectors_of(between: FloatArray) -> FloatArray:
    """Vectors whose products off the diagonal are those of a symmetric matrix."""
    wide = between + np.eye(len(between)) * (np.abs(between).sum() + 1)
    return np.linalg.cholesky(wide).astype(np.float32)


def example() -> tuple[FloatArray, FloatArray]:
    entity, pairs = EXAMPLE
    between = np.zeros((4, 4))
    for (u, v), value in pairs.items():
        between[u, v] = between[v, u] = value
    return np.array(entity, np.float32), between.astype(np.float32)


def test_the_papers_example() -> None:
    entity, between = example()
    vectors = vectors_of(between)
    assert full_tree(entity, vectors).parents.tolist() == [ENTITY, 0, 1, ENTITY]
    assert pruned(entity, between) == [ENTITY, 0, 1, ENTITY]
    assert nearest_parents(entity, vectors).tolist() == [ENTITY, ENTITY, 1, ENTITY]


def test_the_papers_example_with_its_random_draws() -> None:
    class Drawn:
        """Draws m1:m3, m2:m1, m3:m4, m4:m2; one above a mention's own number is one less."""

        def integers(self, high: int, size: int) -> npt.NDArray[np.int64]:
            assert (high, size) == (3, 4)
            return np.array([1, 0, 2, 1])

    entity, between = example()
    found = random_parents(entity, vectors_of(between), Drawn())  # type: ignore[arg-type]  # its draws are told
    assert found.tolist() == [ENTITY, 0, 3, ENTITY]


@pytest.mark.parametrize("values", [3, 6, 1000], ids=["many ties", "ties", "few ties"])
def test_the_tree_is_what_pruning_leaves(values: int) -> None:
    """Products of small whole numbers are exact, so that ties are ties; many of them are 0."""
    rng = np.random.default_rng(values)
    for _ in range(120):
        count, dim = int(rng.integers(1, 9)), int(rng.integers(1, 4))
        mentions = rng.integers(-values, values + 1, (count, dim)).astype(np.float32)
        entity = rng.integers(-values, values + 1, count).astype(np.float32)
        expected = pruned(entity, mentions @ mentions.T)
        assert full_tree(entity, mentions).parents.tolist() == expected
        assert full_tree(entity, mentions, most_bytes=0).parents.tolist() == expected


def test_one_other_mention_is_the_tree_of_three() -> None:
    """1-NN and 1-Rand are the rule on the entity, the mention and one other mention alone."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        count = int(rng.integers(2, 8))
        mentions = rng.integers(-4, 5, (count, 3)).astype(np.float32)
        entity = rng.integers(-4, 5, count).astype(np.float32)
        similar = mentions @ mentions.T
        np.fill_diagonal(similar, -np.inf)
        for at, parent in enumerate(nearest_parents(entity, mentions).tolist()):
            other = int(similar[at].argmax())
            pair = np.array([other, at])  # of equal arcs of the entity the mention's own stays
            (_, own) = pruned(entity[pair], (mentions @ mentions.T)[np.ix_(pair, pair)])
            assert parent == (ENTITY if own == ENTITY else other)


def test_random_others_are_never_the_mention_itself() -> None:
    mentions = np.ones((40, 2), np.float32)
    entity = np.linspace(-1, 1, 40, dtype=np.float32)
    seen = set()
    for seed in range(30):
        parents = random_parents(entity, mentions, np.random.default_rng(seed))
        own = np.arange(40)
        assert not (parents == own).any()
        seen |= set(parents.tolist())
    assert len(seen) > 20
    again = random_parents(entity, mentions, np.random.default_rng(3))
    assert (again == random_parents(entity, mentions, np.random.default_rng(3))).all()


def test_a_single_mention_none_and_all_identical() -> None:
    one = np.ones((1, 3), np.float32)
    none = np.empty((0, 3), np.float32)
    same = np.ones((5, 3), np.float32)
    rng = np.random.default_rng(0)
    for mentions, sims, expected in (
        (none, [], []),
        (one, [0.0], [ENTITY]),
        (same, [3.0] * 5, [ENTITY] * 5),
    ):
        entity = np.array(sims, np.float32)
        assert full_tree(entity, mentions).parents.tolist() == expected
        assert nearest_parents(entity, mentions).tolist() == expected
        assert random_parents(entity, mentions, rng).tolist() == expected


def test_a_cluster_larger_than_memory_grows_row_by_row_and_says_so() -> None:
    rng = np.random.default_rng(1)
    mentions = rng.normal(size=(300, 8)).astype(np.float32)
    entity = rng.normal(size=300).astype(np.float32)
    kept = full_tree(entity, mentions)
    rows = full_tree(entity, mentions, most_bytes=300 * 300 * 4 - 1)
    assert kept.note == ""
    assert "300 mentions of one entity" in rows.note
    assert "row by row" in rows.note
    assert (kept.parents == rows.parents).all()


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        full_tree(np.array([np.nan], np.float32), np.ones((1, 2), np.float32))
    with pytest.raises(ValueError, match="2 mentions"):
        full_tree(np.ones(1, np.float32), np.ones((2, 2), np.float32))
