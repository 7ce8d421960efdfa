"""The paired randomization test: may two systems' figures differ by chance alone?

Were the systems alike, each item's two values could as well be the other way round. So the signs
of the differences are flipped at random, and the share of rounds in which the sum is as large as
the one that was measured is the probability p. The papers compare with .05, divided by the number
of comparisons that were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from kglink.errors import UsageError

ROUNDS = 10_000
ALPHA = 0.05

#: Sums that differ by less, relative to the largest there can be, are equal but for rounding.
_ROUNDING = 1e-12

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Values = Sequence[float] | FloatArray


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
    sizes, positive, count = _sizes(ours - theirs)
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


def _sizes(differences: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """The sizes of the differences that are none of 0, how many are positive, how many in all."""
    some = differences[differences != 0]
    sizes, place = np.unique(np.abs(some), return_inverse=True)
    positive = np.bincount(place[some > 0], minlength=len(sizes))
    return sizes, positive, np.bincount(place, minlength=len(sizes))


def _check(left: FloatArray, right: FloatArray, rounds: int) -> None:
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
