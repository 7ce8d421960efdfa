"""Finding the entities that a list's ids mean, in two KBs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from kglink.errors import UsageError
from kglink.overlap.exchange.curies import keys_of
from kglink.overlap.exchange.lists import ListedPair, PairList
from kglink.records import Entity, EntityId, Verdict
from kglink.text.plain import MOST_SHOWN, plain

BATCH = 500
EXAMPLES = 3

Pair = tuple[EntityId, EntityId]


class EntityReader(Protocol):
    """What matching needs of the store."""

    def get_entities(self, ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
        """The entities that are there."""
        ...


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


def match_list(listed: PairList, store: EntityReader, left: str, right: str) -> MatchedList:
    """Read a list to its end; its columns may stand in either order of the KBs."""
    if left == right:
        raise UsageError(f"{left!r} has no overlap with itself", hint="Name two different KBs.")
    found = MatchedList(left, right)
    seen: set[str] = set()
    remaining = iter(listed)
    while batch := list(islice(remaining, BATCH)):
        matcher = _Matcher(batch, store, (left, right), listed.prefixes)
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
                    found.examples.append(f"{plain(end, MOST_SHOWN)} ({row.place})")
    found.unknown, found.left_out = len(seen), listed.left_out
    return found


class _Matcher:
    """The entities that the ids of some rows may mean."""

    def __init__(
        self,
        rows: Sequence[ListedPair],
        store: EntityReader,
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
        self._known = store.get_entities(wanted).keys()

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
        """A KB that the list names and we do not have may well be one of ours by another name."""
        if named in self._kbs and named != kb:
            return
        for key in keys_of(text, kb, self._prefixes, named):
            yield EntityId(kb, key)
