"""Which pairs a review draws, and the precision that their verdicts mean."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from kglink.errors import UsageError
from kglink.records import Overlap

Order = Literal["random", "uncertain"]
#: Left key and right key.
Keys = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ReviewPlan:
    """Whose overlaps are reviewed, how many of them, and which.

    ``random`` draws from all pairs that were found, judged or not, so that the precision of the
    sample is that of all. ``uncertain`` takes the unjudged pairs whose probability is nearest to
    one half: the verdicts that a model learns most from, and no measure of the rest.
    """

    left: str
    right: str
    sample: int = 100
    order: Order = "random"
    seed: int = 17

    def __post_init__(self) -> None:
        if self.order not in get_args(Order):
            known = ", ".join(get_args(Order))
            raise UsageError(f"unknown order {self.order!r}", hint=f"There is: {known}.")
        if self.sample < 1:
            raise UsageError(f"a sample of {self.sample} pairs", hint="It takes at least one.")
        if self.left == self.right:
            raise UsageError(
                f"{self.left!r} has no overlap with itself", hint="Name two different KBs."
            )


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn from how many; ``stale`` pairs, judged on other texts, come before it."""

    pairs: tuple[Keys, ...]
    stale: tuple[Keys, ...]
    population: int


def draw(plan: ReviewPlan, overlaps: Iterable[Overlap]) -> Drawn:
    """Draw from the overlaps of two KBs, holding no more of them than are drawn.

    The same seed gives the same pairs, and a larger sample holds the smaller one.
    """
    stale: list[Keys] = []
    population = 0

    def eligible() -> Iterator[Overlap]:
        nonlocal population
        for overlap in overlaps:
            if overlap.stale and len(stale) < plan.sample:
                stale.append(keys_of(overlap))
            if overlap.was_found and (plan.order == "random" or overlap.verdict is None):
                population += 1
                yield overlap

    if plan.order == "random":
        chosen = heapq.nsmallest(plan.sample, eligible(), key=_random_rank(plan.seed))
    else:
        chosen = heapq.nsmallest(plan.sample, eligible(), key=_uncertainty)
    return Drawn(tuple(map(keys_of, chosen)), tuple(stale), population)


def keys_of(overlap: Overlap) -> Keys:
    """The keys of its two entities."""
    return overlap.left.key, overlap.right.key


def _random_rank(seed: int) -> Callable[[Overlap], bytes]:
    def rank(overlap: Overlap) -> bytes:
        text = f"{seed}\0{overlap.left.key}\0{overlap.right.key}"
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    return rank


def _uncertainty(overlap: Overlap) -> tuple[float, str, str]:
    return abs(overlap.probability - 0.5), *keys_of(overlap)


#: The normal quantile that leaves 2.5% on either side.
Z_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ReviewTable:
    """Counts of the verdicts on the pairs that a review drew, and the precision that they mean.

    ``population`` are the pairs that it drew from, ``before`` those of the drawn that had been
    judged already, ``again`` the pairs that were shown besides because what they were judged by
    has changed: these were not drawn, and are in no other count.
    """

    left: str
    right: str
    order: str
    seed: int
    population: int
    drawn: int
    correct: int
    wrong: int
    unclear: int
    skipped: int
    open: int
    before: int = 0
    again: int = 0

    @property
    def judged(self) -> int:
        """Pairs with a verdict of any kind."""
        return self.correct + self.wrong + self.unclear

    @property
    def precision(self) -> Share | None:
        """The share of correct pairs among those that are correct or wrong."""
        return share_of(self.correct, self.correct + self.wrong)

    @property
    def precision_of_all(self) -> Share | None:
        """The same among all judged ones: an unclear pair is not correct, as the paper counts."""
        return share_of(self.correct, self.judged)

    def as_json(self) -> dict[str, object]:
        """Counts by name; a share is an object with its interval, or null."""
        fields: dict[str, object] = asdict(self) | {"judged": self.judged}
        for name, share in (
            ("precision", self.precision),
            ("precision_of_all", self.precision_of_all),
        ):
            fields[name] = asdict(share) if share else None
        return fields


def share_of(part: int, whole: int) -> Share | None:
    """A share with its Wilson interval; None of nothing."""
    return Share(part / whole, *wilson_interval(part, whole)) if whole else None


def wilson_interval(part: int, whole: int, z: float = Z_95) -> tuple[float, float]:
    """The score interval of Wilson (1927) for a share of ``part`` in ``whole`` trials."""
    share, square = part / whole, z * z
    centre = (share + square / (2 * whole)) / (1 + square / whole)
    reach = math.sqrt(share * (1 - share) / whole + square / (4 * whole**2))
    reach *= z / (1 + square / whole)
    # At the ends the formula gives exactly 0 and 1, but for the last digit.
    return max(0.0, centre - reach) if part else 0.0, min(1.0, centre + reach) if (
        part < whole
    ) else 1.0
