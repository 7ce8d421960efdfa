"""What a review comes to: the paper's Table 4 for one pair of KBs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

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
