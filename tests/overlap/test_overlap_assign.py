"""One-to-one assignment equals the best of all assignments, counted out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from kglink.overlap import weigh
from kglink.overlap.weigh import assign_one_to_one

Pair = tuple[str, str, float]


def kept(pairs: list[Pair], least: float = 0.5) -> list[tuple[str, str]]:
    lefts, rights, probabilities = zip(*pairs, strict=True) if pairs else ((), (), ())
    chosen = assign_one_to_one(lefts, rights, probabilities, least)
    return [pair[:2] for pair, is_kept in zip(pairs, chosen, strict=True) if is_kept]


def worth(pairs: list[Pair], least: float) -> float:
    def odds(probability: float) -> float:
        return math.log(probability / (1 - probability))

    return sum(odds(probability) - odds(least) + 1e-3 for _, _, probability in pairs)


def best_worth(pairs: list[Pair], least: float) -> float:
    """The worth of the best set of pairs in which no entity is twice, all sets tried."""
    return max(
        worth(list(chosen), least)
        for size in range(len(pairs) + 1)
        for chosen in itertools.combinations(pairs, size)
        if len({left for left, _, _ in chosen}) == len({right for _, right, _ in chosen}) == size
    )


def random_pairs(seed: int) -> list[Pair]:
    rng = np.random.default_rng(seed)
    cells = rng.permutation(16)[: rng.integers(1, 11)]
    return [
        (f"l{cell // 4}", f"r{cell % 4}", float(rng.uniform(0.5, 0.99))) for cell in cells.tolist()
    ]


@pytest.mark.parametrize("seed", range(40))
def test_the_assignment_equals_the_best_of_all(seed: int) -> None:
    pairs = random_pairs(seed)
    chosen = kept(pairs)
    assert len({left for left, _ in chosen}) == len({right for _, right in chosen}) == len(chosen)
    found = worth([pair for pair in pairs if pair[:2] in chosen], 0.5)
    assert found == pytest.approx(best_worth(pairs, 0.5), abs=1e-9)


def test_two_good_pairs_beat_one_better_one() -> None:
    pairs = [("a", "x", 0.9), ("a", "y", 0.85), ("b", "x", 0.85)]
    assert kept(pairs) == [("a", "y"), ("b", "x")]


def test_one_sure_pair_beats_two_guesses() -> None:
    pairs = [("a", "x", 0.999), ("a", "y", 0.6), ("b", "x", 0.6)]
    assert kept(pairs) == [("a", "x")]


def test_entities_that_have_no_rival_stay() -> None:
    pairs = [("a", "x", 0.5), ("b", "y", 0.7), ("c", "z", 1.0)]
    assert kept(pairs) == [("a", "x"), ("b", "y"), ("c", "z")]


@pytest.mark.parametrize("least", [-1.0, 0.0, 1.0])
def test_any_threshold_is_fit_to_assign_with(least: float) -> None:
    assert kept([("a", "x", 1.0), ("a", "y", 0.2)], least) == [("a", "x")]


def test_nothing_to_assign() -> None:
    assert kept([]) == []


def test_a_large_component_is_taken_greedily(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weigh, "MOST_CELLS", 3)
    pairs = [("a", "x", 0.9), ("a", "y", 0.85), ("b", "x", 0.85), ("b", "y", 0.6)]
    assert kept(pairs) == [("a", "x"), ("b", "y")]
