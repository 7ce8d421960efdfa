"""Choosing the least probability of a link: the one of the best F1 on annotated documents.

Another threshold than the default one is taken only where those that are chosen on the other
documents have a better F1 on documents that they were not chosen on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kglink.linking.scoring import DEFAULT_THRESHOLD

#: The thresholds to choose from: two digits are what a person sets, too.
_STEPS = 100


class JudgedLink(NamedTuple):
    """What a place would be linked to: from which threshold down, and whether that is right."""

    least: float
    is_right: bool


class JudgedLinks(NamedTuple):
    """The links of some documents at any threshold, and how many mentions have an answer."""

    links: tuple[JudgedLink, ...]
    wanted: int

    @classmethod
    def joined(cls, some: Iterable[JudgedLinks]) -> JudgedLinks:
        """Those of all documents."""
        parts = list(some)
        return cls(tuple(one for part in parts for one in part.links), sum(p.wanted for p in parts))

    def at(self, threshold: float) -> LinksKept:
        """The links that a threshold keeps."""
        kept = [one.is_right for one in self.links if one.least >= threshold]
        return LinksKept(sum(kept), len(kept) - sum(kept), self.wanted)

    def best(self) -> float:
        """The threshold of the best F1; of several the one nearest to the default."""
        steps = [step / _STEPS for step in range(1, _STEPS)]
        return max(steps, key=lambda one: (self.at(one).f1, -abs(one - DEFAULT_THRESHOLD)))


class LinksKept(NamedTuple):
    """How many links are right and wrong, and how many mentions have an answer."""

    right: int = 0
    wrong: int = 0
    wanted: int = 0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        both = self.right + self.wrong + self.wanted
        return 2 * self.right / both if both else 0.0

    def __add__(self, other: tuple[int, ...]) -> LinksKept:  # type: ignore[override]  # counts add
        return LinksKept(*map(sum, zip(self, other, strict=True)))


def fit_threshold(parts: Sequence[JudgedLinks]) -> float:
    """The threshold for documents like these, which are given in parts."""
    chosen = before = LinksKept()
    for at, part in enumerate(parts):
        others = JudgedLinks.joined([*parts[:at], *parts[at + 1 :]])
        chosen += part.at(others.best())
        before += part.at(DEFAULT_THRESHOLD)
    return JudgedLinks.joined(parts).best() if chosen.f1 > before.f1 else DEFAULT_THRESHOLD
