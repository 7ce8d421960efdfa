"""A list of pairs matched with the entities of two KBs: imported as verdicts, or compared.

A matched list can become verdicts (`import_verdicts`) or be compared with our own overlaps
(`compare_overlaps`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from kglink.errors import UsageError
from kglink.overlap.exchange.lists import ListedPair, PairList, keys_of
from kglink.records import Entity, EntityId, Overlap, Verdict
from kglink.text.printable import MOST_SHOWN, printable

if TYPE_CHECKING:
    from kglink.store import Store

GetEntities = Callable[[Iterable[EntityId]], Mapping[EntityId, Entity]]
"""Looks entities up; those that do not exist are left out."""
BATCH = 500
EXAMPLES = 3
#: How the store names where imported verdicts come from.
SOURCE = "import"

Pair = tuple[EntityId, EntityId]


@dataclass(slots=True)
class MatchedList:
    """What a list says of the entities of two KBs.

    ``rows`` are those that say a verdict. ``unmatched`` of them name no entity of each KB:
    ``unknown`` is how many ids neither KB holds, ``examples`` some of them and where they stand;
    ``one_kb`` counts the rows both of whose ids are of one KB. Of a pair that comes twice the
    last verdict is kept; ``contradicted`` holds the pairs of which the list has said something
    else before, and where it takes that back.
    """

    left: str
    right: str
    verdicts: dict[Pair, Verdict] = field(default_factory=dict)
    rows: int = 0
    unmatched: int = 0
    one_kb: int = 0
    unknown: int = 0
    examples: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    contradicted: dict[Pair, str] = field(default_factory=dict)

    def add(self, pair: Pair, row: ListedPair) -> None:
        """Take in what a row says of a pair."""
        if self.verdicts.get(pair, row.verdict) != row.verdict:
            self.contradicted[pair] = row.place
        self.verdicts[pair] = row.verdict

    def said(self, verdict: Verdict) -> set[Pair]:
        """The pairs of which the list says this."""
        return {pair for pair, said in self.verdicts.items() if said == verdict}


def match_list(listed: PairList, get_entities: GetEntities, left: str, right: str) -> MatchedList:
    """Read a list to its end; its columns may stand in either order of the KBs."""
    if left == right:
        raise UsageError(f"{left!r} has no overlap with itself", hint="Name two different KBs.")
    found = MatchedList(left, right)
    seen: set[str] = set()
    remaining = iter(listed)
    while batch := list(islice(remaining, BATCH)):
        matcher = _Matcher(batch, get_entities, (left, right), listed.prefixes)
        for row in batch:
            found.rows += 1
            pair = matcher.pair(row)
            if pair:
                found.add(pair, row)
                continue
            found.unmatched += 1
            unknown = list(matcher.unknown(row))
            found.one_kb += not unknown
            for end in filter(lambda end: end not in seen, unknown):
                seen.add(end)
                if len(found.examples) < EXAMPLES:
                    found.examples.append(f"{printable(end, MOST_SHOWN)} ({row.place})")
    found.unknown, found.left_out = len(seen), listed.left_out
    return found


class _Matcher:
    """The entities that the ids of some rows may mean."""

    def __init__(
        self,
        rows: Sequence[ListedPair],
        get_entities: GetEntities,
        kbs: tuple[str, str],
        prefixes: Mapping[str, str],
    ) -> None:
        self._kbs = kbs
        self._prefixes = prefixes
        wanted = {
            one
            for row in rows
            for text, named in ((row.left, row.left_kb), (row.right, row.right_kb))
            for kb in kbs
            for one in self._meanings(text, named, kb)
        }
        self._known = get_entities(wanted).keys()

    def pair(self, row: ListedPair) -> Pair | None:
        """The two entities of a row, the one of the first KB on the left."""
        first, second = self._kbs
        for one, other, kbs in (
            (row.left, row.right, (row.left_kb, row.right_kb)),
            (row.right, row.left, (row.right_kb, row.left_kb)),
        ):
            left = self._entity(one, kbs[0], first)
            right = self._entity(other, kbs[1], second)
            if left and right:
                return left, right
        return None

    def unknown(self, row: ListedPair) -> Iterator[str]:
        """The ids of a row that neither KB holds."""
        for text, named in ((row.left, row.left_kb), (row.right, row.right_kb)):
            if not any(self._entity(text, named, kb) for kb in self._kbs):
                yield text

    def _entity(self, text: str, named: str, kb: str) -> EntityId | None:
        return next((one for one in self._meanings(text, named, kb) if one in self._known), None)

    def _meanings(self, text: str, named: str, kb: str) -> Iterator[EntityId]:
        """The entities that an id may mean; a KB name that is unknown here is ignored."""
        if named in self._kbs and named != kb:
            return
        for key in keys_of(text, kb, self._prefixes, named):
            yield EntityId(kb, key)


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What was taken in; ``conflicts`` are pairs that were judged otherwise in a review here."""

    set: int
    agreed: int
    conflicts: int
    examples: tuple[str, ...]


def import_verdicts(listed: MatchedList, store: Store) -> ImportReport:
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
        elif before and before.source != SOURCE and not before.source.startswith("kb:"):
            conflicts.append(f"{pair[0]} {pair[1]}: {before.verdict} here, {verdict} there")
        else:
            new.append((*pair, verdict))
    store.set_verdicts(new, SOURCE)
    return ImportReport(len(new), agreed, len(conflicts), tuple(conflicts[:EXAMPLES]))


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
    for overlap in ours:
        if not overlap.was_found:
            continue
        pair = overlap.left, overlap.right
        total += 1
        both += pair in wanted
        touching += overlap.left in known or overlap.right in known
        denied_found += pair in denied
    return ListFigures(len(wanted), total, both, touching, len(denied), denied_found)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
