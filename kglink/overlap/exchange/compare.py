"""How well our overlaps agree with somebody else's list of pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from kglink.overlap.exchange.matching import MatchedList
from kglink.overlap.ours import was_found
from kglink.records import Overlap


@dataclass(frozen=True, slots=True)
class ListFigures:
    """Our pairs against those of a list, whatever verdicts ours have.

    ``ours_known`` are those of ours that touch an entity which the list pairs with something. A
    list that leaves many entities out says nothing of pairs of others, so precision is given over
    all of ours and over these. ``denied`` are pairs that the list calls wrong.
    """

    listed: int
    ours: int
    both: int
    ours_known: int
    denied: int
    denied_found: int

    @property
    def precision(self) -> float | None:
        """The share of ours that the list has too."""
        return _ratio(self.both, self.ours)

    @property
    def precision_known(self) -> float | None:
        """The same, of those that touch an entity of the list."""
        return _ratio(self.both, self.ours_known)

    @property
    def recall(self) -> float | None:
        """The share of the list that we found."""
        return _ratio(self.both, self.listed)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall."""
        return _ratio(2 * self.both, self.ours + self.listed)

    @property
    def f1_known(self) -> float | None:
        """The harmonic mean of `precision_known` and recall."""
        return _ratio(2 * self.both, self.ours_known + self.listed)

    def as_json(self) -> dict[str, float | int | None]:
        """Counts and figures by name."""
        figures = ("precision", "recall", "f1", "precision_known", "f1_known")
        return asdict(self) | {name: getattr(self, name) for name in figures}


def compare_overlaps(ours: Iterable[Overlap], listed: MatchedList) -> ListFigures:
    """Compare the overlaps of two KBs, those of the list's left KB on the left."""
    wanted, denied = listed.said("correct"), listed.said("wrong")
    known = {entity for pair in wanted for entity in pair}
    total = both = touching = denied_found = 0
    for overlap in filter(was_found, ours):
        pair = overlap.left, overlap.right
        total += 1
        both += pair in wanted
        touching += overlap.left in known or overlap.right in known
        denied_found += pair in denied
    return ListFigures(len(wanted), total, both, touching, len(denied), denied_found)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
