"""Which pairs a review shows, and in what order."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from kglink.errors import UsageError
from kglink.overlap.ours import was_found
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
            if was_found(overlap) and (plan.order == "random" or overlap.verdict is None):
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
