"""What a search for overlaps did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """Candidates and kept pairs, as in the paper's Table 1, and what they rest on."""

    left: str
    right: str
    method: str
    candidates: int
    kept: int
    by_name: int = 0
    """Kept pairs whose entities share a name."""
    by_meaning_only: int = 0
    """Kept pairs whose entities share none."""
    proposed_by: Mapping[str, int] = field(default_factory=dict)
    """Kept pairs that each kind of evidence proposed."""
    notes: tuple[str, ...] = ()
    """What was passed over or left out, in words."""
    model: str = ""
    """The model that weighed the evidence; empty where none did."""
    seconds: float = 0.0
    current: bool = False
    """Nothing had changed since the last search, whose counts these are."""


@dataclass(slots=True)
class Tally:
    """What a search counts as it goes."""

    candidates: int = 0
    by_name: int = 0
    by_meaning_only: int = 0
    undescribed: int = 0
    """Pairs of which one or both lack a description."""
    left_for_them: dict[str, None] = field(default_factory=dict)
    """The evidence that knew something of such pairs."""
    missing: int = 0
    unweighed: set[str] = field(default_factory=set)
    proposed_by: Counter[str] = field(default_factory=Counter)

    def keep(self, *, shares_name: bool) -> None:
        """Count a kept pair."""
        if shares_name:
            self.by_name += 1
        else:
            self.by_meaning_only += 1
