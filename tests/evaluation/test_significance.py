"""The paired randomization test against cases by hand and against all sign flips there are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from kglink.errors import UsageError
from kglink.evaluation.significance import RandomizationTest, randomization_test


def exact_p(left: list[float], right: list[float]) -> float:
    """The share of all sign flips with at least as large a sum."""
    differences = [ours - theirs for ours, theirs in zip(left, right, strict=True)]
    least = abs(sum(differences)) - 1e-9
    flips = [
        abs(sum(sign * one for sign, one in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(one >= least for one in flips) / len(flips)


def test_identical_systems_differ_by_chance_for_certain() -> None:
    found = randomization_test([1, 0, 0.5, 1], [1, 0, 0.5, 1])
    assert found == RandomizationTest(4, 0.625, 0.625, 0.0, 1.0, 10_000, 0)
    assert not found.is_significant()


def test_the_test_is_symmetric() -> None:
    rng = np.random.default_rng(5)
    left, right = rng.integers(0, 2, (2, 80)).astype(float)
    one, other = randomization_test(left, right, seed=3), randomization_test(right, left, seed=3)
    assert one.p == other.p < 1
    assert one.difference == -other.difference != 0
    assert (one.left, one.right) == (other.right, other.left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([1, 1, 1, 1, 1], [0, 0, 0, 0, 0]),  # all signs equal: 2 of 32
        ([1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 1, 1]),  # five that differ, four of them ours
        ([1, 0.5, 1 / 3, 0.2, 0, 1, 0.25], [0.5, 1 / 3, 0.5, 0, 0, 0.1, 1]),
        ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]),  # sums of 0 but for rounding
    ],
)
def test_it_agrees_with_all_flips_there_are(left: list[float], right: list[float]) -> None:
    rounds = 40_000
    exact = exact_p(left, right)
    found = randomization_test(left, right, rounds=rounds, seed=1)
    # Five standard deviations of a share over so many rounds.
    assert abs(found.p - exact) < 5 * (exact * (1 - exact) / rounds) ** 0.5 + 2 / rounds
    assert found.difference == pytest.approx(sum(left) / len(left) - sum(right) / len(right))


def test_two_by_hand() -> None:
    # Of the four flips of (1, 1) those with equal signs are as large: p = 1/2.
    assert exact_p([1, 1], [0, 0]) == 0.5
    assert randomization_test([1, 1], [0, 0]).p == pytest.approx(0.5, abs=0.02)
    # One item is as large whatever its sign.
    assert randomization_test([1], [0]).p == 1.0
    # 40 of the same sign are never as large by chance: p is its least, never 0.
    assert randomization_test([1] * 40, [0] * 40, rounds=999).p == 1 / 1000


def test_items_without_a_difference_change_nothing() -> None:
    few = randomization_test([1, 1, 0, 1, 1], [0, 0, 1, 0, 0], seed=2)
    many = randomization_test([1, 1, 0, 1, 1] + [1] * 50, [0, 0, 1, 0, 0] + [1] * 50, seed=2)
    assert few.p == many.p


def test_a_seed_decides_and_comparisons_share_the_level() -> None:
    left, right = [1.0] * 9 + [0.0], [0.0] * 9 + [1.0]
    first = randomization_test(left, right, seed=7)
    assert first == randomization_test(left, right, seed=7)
    # 22 of 1,024 flips: .0215 is below .05 and not below .05 / 10.
    assert first.p == pytest.approx(22 / 1024, abs=0.007)
    assert first.is_significant()
    assert not first.is_significant(comparisons=10)
    assert first.is_significant(alpha=0.5, comparisons=10)


def test_what_cannot_be_compared_is_refused() -> None:
    for left, right, message in (
        ([1.0], [1.0, 0.0], "1 and 2 values"),
        ([], [], "no items"),
        ([float("nan")], [0.0], "finite"),
    ):
        with pytest.raises(UsageError, match=message):
            randomization_test(left, right)
    with pytest.raises(UsageError, match="0 rounds"):
        randomization_test([1.0], [0.0], rounds=0)
