"""How sure figures are: 95% intervals, and whether two systems differ by more than chance.

The paired randomization test: were two systems alike, each item's two values could as well be the
other way round. So the signs of the differences are flipped at random, and the share of rounds in
which the sum is as large as the one that was measured is the probability p. The papers compare with
.05, divided by the number of comparisons that were made.

Intervals are over the mentions, or texts, that were judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from kglink.arrays import DoubleArray
from kglink.errors import UsageError
from kglink.overlap.review.journal import wilson_interval

ROUNDS = 10_000
ALPHA = 0.05

#: Sums that differ by less, relative to the largest there can be, are equal but for rounding.
_ROUNDING = 1e-12

Values = Sequence[float] | DoubleArray


@dataclass(frozen=True, slots=True)
class RandomizationTest:
    """What the test found: ``difference`` is the mean of left less that of right."""

    items: int
    left: float
    right: float
    difference: float
    p: float
    rounds: int
    seed: int

    def is_significant(self, *, alpha: float = ALPHA, comparisons: int = 1) -> bool:
        """Whether p is below ``alpha``, shared out among all comparisons that are made."""
        return self.p < alpha / comparisons

    def as_json(self) -> dict[str, float | int]:
        """A plain dictionary for machine-readable output."""
        return asdict(self)


def randomization_test(
    left: Values, right: Values, *, rounds: int = ROUNDS, seed: int = 0
) -> RandomizationTest:
    """Compare two systems by their values on the same items, in the same order; two-sided.

    p = (1 + rounds with at least as large a sum) / (1 + rounds), so it is never 0.
    """
    ours, theirs = (np.asarray(values, dtype=np.float64) for values in (left, right))
    _check(ours, theirs, rounds)
    some = (ours - theirs)[ours != theirs]
    sizes, place = np.unique(np.abs(some), return_inverse=True)
    positive = np.bincount(place[some > 0], minlength=len(sizes))
    count = np.bincount(place, minlength=len(sizes))
    measured = abs(float(sizes @ (2 * positive - count)))
    least = measured - _ROUNDING * float(sizes @ count)
    rng = np.random.default_rng(seed)
    sums = np.zeros(rounds)
    for size, number in zip(sizes, count, strict=True):
        # The signs of equal differences need no draw each: how many are positive is binomial.
        sums += size * (2.0 * rng.binomial(number, 0.5, rounds) - number)
    as_large = int((np.abs(sums) >= least).sum())
    means = float(ours.mean()), float(theirs.mean())
    p = (1 + as_large) / (1 + rounds)
    return RandomizationTest(len(ours), *means, means[0] - means[1], p, rounds, seed)


def _check(left: DoubleArray, right: DoubleArray, rounds: int) -> None:
    if left.shape != right.shape or left.ndim != 1:
        raise UsageError(
            f"a paired test of {left.size:,} and {right.size:,} values",
            hint="Both systems need one value for each of the same items.",
        )
    if not len(left):
        raise UsageError("a paired test of no items", hint="It needs one at least.")
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise UsageError("a paired test of values that are no finite numbers")
    if rounds < 1:
        raise UsageError(f"a randomization test of {rounds} rounds", hint="It needs one at least.")


Interval = tuple[float, float]

_DRAWS = 1000
_ENDS = (2.5, 97.5)
#: Rounds that are drawn together, so that a large evaluation does not fill the memory.
_CHUNK = 100


def share_interval(part: int, whole: int) -> Interval:
    """The Wilson interval of a proportion; (0, 0) of no mentions."""
    return wilson_interval(part, whole) if whole else (0.0, 0.0)


def mean_interval(values: Sequence[float], counts: Sequence[int]) -> Interval:
    """The bootstrap interval of a mean; ``counts`` says how often each value is."""
    whole = sum(counts)
    if not whole:
        return 0.0, 0.0
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(whole, np.asarray(counts) / whole, size=_DRAWS)
    return _ends(drawn @ np.asarray(values) / whole)


def group_interval(groups: Iterable[DoubleArray]) -> Interval:
    """The interval of the mean of group means: bootstrap within each group."""
    drawn = []
    rng = np.random.default_rng(0)
    for group in groups:
        values, counts = np.unique(group, return_counts=True)
        drawn.append(rng.multinomial(len(group), counts / len(group), size=_DRAWS) @ values)
        drawn[-1] /= len(group)
    return _ends(np.mean(drawn, axis=0))


def text_intervals(counts: Sequence[tuple[int, int, int]]) -> tuple[Interval, Interval, Interval]:
    """Intervals of precision, recall and F1, from each text's right, found and gold counts.

    Bootstrap over texts, as mentions of one text are not independent.
    """
    if not counts:
        return ((0.0, 0.0),) * 3
    # Texts with the same counts need no draw each: how many are drawn is multinomial.
    texts, times = np.unique(np.asarray(counts), axis=0, return_counts=True)
    rng = np.random.default_rng(0)
    chances = times / len(counts)
    sums = np.concatenate(
        [
            rng.multinomial(len(counts), chances, size=_CHUNK) @ texts
            for _ in range(_DRAWS // _CHUNK)
        ]
    )
    right, found, gold = sums.T
    empty = (found + gold) == 0
    parts = ((right, found), (right, gold), (2 * right, found + gold))
    ends = (_ends(np.where(empty, 1.0, part / np.maximum(whole, 1))) for part, whole in parts)
    precision, recall, f1 = ends
    return precision, recall, f1


def _ends(drawn: DoubleArray) -> Interval:
    low, high = np.percentile(drawn, _ENDS)
    return float(low), float(high)
