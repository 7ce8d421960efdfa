"""Taking a list of pairs in as verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from kglink.overlap.exchange.matching import MatchedList
from kglink.records import EntityId, Overlap, Verdict

#: How the store names where these verdicts come from.
SOURCE = "import"
EXAMPLES = 3


class VerdictStore(Protocol):
    """What importing needs of the store."""

    def overlaps(
        self, left: str | None = None, right: str | None = None, *, judged: bool | None = None
    ) -> Iterator[Overlap]:
        """The overlaps of two KBs."""
        ...

    def set_verdicts(
        self, judged: Iterable[tuple[EntityId, EntityId, Verdict | None]], source: str = "review"
    ) -> int:
        """Set many verdicts."""
        ...


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What was taken in; ``conflicts`` are pairs that were judged otherwise in a review here."""

    set: int
    agreed: int
    conflicts: int
    examples: tuple[str, ...]


def import_verdicts(listed: MatchedList, store: VerdictStore) -> ImportReport:
    """Set the verdicts of a list, except on pairs that were judged otherwise in a review here.

    A verdict that an earlier list or a KB's mappings brought is replaced.
    """
    standing = {
        (one.left, one.right): one
        for one in store.overlaps(listed.left, listed.right, judged=True)
        if (one.left, one.right) in listed.verdicts
    }
    new, agreed, conflicts = [], 0, []
    for pair, verdict in listed.verdicts.items():
        before = standing.get(pair)
        if before and before.verdict == verdict:
            agreed += 1
        elif before and _by_a_person(before):
            conflicts.append(f"{pair[0]} {pair[1]}: {before.verdict} here, {verdict} there")
        else:
            new.append((*pair, verdict))
    store.set_verdicts(new, SOURCE)
    return ImportReport(len(new), agreed, len(conflicts), tuple(conflicts[:EXAMPLES]))


def _by_a_person(overlap: Overlap) -> bool:
    return overlap.source != SOURCE and not overlap.source.startswith("kb:")
