"""A list of pairs matched with the entities of two KBs: imported as verdicts, or compared.

A matched list can become verdicts (`import_verdicts`) or be compared with our own overlaps
(`compare_overlaps`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice

from kglink.overlap.exchange.lists import ListedPair, PairList, keys_of
from kglink.records import Entity, EntityId, Overlap, Verdict
from kglink.store import Store
from kglink.text.printable import MOST_SHOWN, printable

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

    def said(self, verdict: Verdict) -> set[Pair]:
        """The pairs of which the list says this."""
        return {pair for pair, said in self.verdicts.items() if said == verdict}


def match_list(listed: PairList, get_entities: GetEntities, left: str, right: str) -> MatchedList:
    """Read a list to its end; its columns may stand in either order of the KBs."""
    found = MatchedList(left, right)
    seen: set[str] = set()
    remaining = iter(listed)
    while batch := list(islice(remaining, BATCH)):
        for row, pair, unknown in _matched(batch, get_entities, (left, right), listed.prefixes):
            found.rows += 1
            if pair:
                if found.verdicts.get(pair, row.verdict) != row.verdict:
                    found.contradicted[pair] = row.place
                found.verdicts[pair] = row.verdict
                continue
            found.unmatched += 1
            found.one_kb += not unknown
            for end in filter(lambda end: end not in seen, unknown):
                seen.add(end)
                if len(found.examples) < EXAMPLES:
                    found.examples.append(f"{printable(end, MOST_SHOWN)} ({row.place})")
    found.unknown, found.left_out = len(seen), listed.left_out
    return found


def _matched(
    rows: Sequence[ListedPair],
    get_entities: GetEntities,
    kbs: tuple[str, str],
    prefixes: Mapping[str, str],
) -> Iterator[tuple[ListedPair, Pair | None, list[str]]]:
    """Each row with its two entities, that of the first KB first, and its ids that no KB holds."""

    def meanings(text: str, named: str, kb: str) -> list[EntityId]:
        """The entities that an id may mean; a KB name that is unknown here is ignored."""
        if named in kbs and named != kb:
            return []
        return [EntityId(kb, key) for key in keys_of(text, kb, prefixes, named)]

    ends = [((row.left, row.left_kb), (row.right, row.right_kb)) for row in rows]
    known = get_entities(
        {one for both in ends for end in both for kb in kbs for one in meanings(*end, kb)}
    ).keys()
    for row, both in zip(rows, ends, strict=True):
        one, other = (
            [next((meant for meant in meanings(*end, kb) if meant in known), None) for kb in kbs]
            for end in both
        )
        pairs = ((one[0], other[1]), (other[0], one[1]))  # the columns may stand in either order
        pair = next(((left, right) for left, right in pairs if left and right), None)
        yield row, pair, [end[0] for end, of in zip(both, (one, other), strict=True) if not any(of)]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What was taken in; ``conflicts`` are pairs that were judged otherwise in a review here."""

    set: int
    agreed: int
    conflicts: int
    examples: tuple[str, ...]


def import_verdicts(listed: MatchedList, store: Store) -> ImportReport:
    """Set the verdicts of a list, except on pairs that were judged otherwise in a review here.

    A verdict that an earlier list or a KB's mappings brought is replaced, by the same one too: it
    must stay when that KB goes.
    """
    standing = {
        (one.left, one.right): one
        for one in store.overlaps(listed.left, listed.right, judged=True)
        if (one.left, one.right) in listed.verdicts
    }
    new, agreed, conflicts = [], 0, []
    for pair, verdict in listed.verdicts.items():
        before = standing.get(pair)
        if before is None or before.judged_by_kb:
            new.append((*pair, verdict))
        elif before.verdict == verdict:
            agreed += 1
        elif before.source != SOURCE:
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
