"""What surfaces meant in annotated documents: counts by surface and entity.

Memory names entities by KB and key, so it survives updates of a KB, and its removal and return. It
is learnt from the documents of one KB at a time; learning from the same again takes the place of
what was there.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, delete, func, insert, select, tuple_, update

from kglink.records import NIL, NO_MENTION, Document, EntityId, Mention
from kglink.store.database import Database
from kglink.store.schema import memories, store_state
from kglink.text.fold import fold
from kglink.text.name_words import name_key

_BATCH = 2000
_LOOKUP = 500
#: Less than the smallest part of a mention: what is left of sums that should be zero.
_NOTHING = 1e-6
#: Places of a document that look like mentions and are not annotated.
Unmarked = Callable[[Document], Iterable[str]]


class Meaning(NamedTuple):
    """A surface meant an entity, NIL or no mention at all, so often.

    ``key`` is one for all inflections of ``folded``; ``surface`` is one of its spellings. A
    mention with several right answers in one KB counts a part for each.
    """

    key: str
    folded: str
    entity: EntityId
    times: float
    surface: str


def meanings(mentions: Iterable[Mention], unmarked: Iterable[str] = ()) -> list[Meaning]:
    """What some annotated mentions, and words beside them, say of their surfaces."""
    counts: dict[tuple[str, EntityId], float] = defaultdict(float)
    written: dict[str, str] = {}
    for mention in mentions:
        if mention.gold is None:
            continue
        golds = mention.gold or (NIL,)
        in_kb = Counter(one.kb for one in golds)
        for one in golds:
            counts[_noted(mention.surface, written), one] += 1 / in_kb[one.kb]
    for surface in unmarked:
        counts[_noted(surface, written), NO_MENTION] += 1
    return [
        Meaning(name_key(folded), folded, one, times, written[folded])
        for (folded, one), times in counts.items()
    ]


def _noted(surface: str, written: dict[str, str]) -> str:
    folded = fold(surface) or surface
    written.setdefault(folded, surface)
    return folded


class MemoryTable:
    """The memory of a store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def learn(self, source: str, documents: Iterable[Document], unmarked: Unmarked) -> int:
        """Take what these documents say in the place of what ``source`` said; its surfaces."""
        counts: dict[tuple[str, str, EntityId], float] = defaultdict(float)
        written: dict[str, str] = {}
        for document in documents:
            for one in meanings(document.mentions, unmarked(document)):
                counts[one.key, one.folded, one.entity] += one.times
                written.setdefault(one.folded, one.surface)
        rows = [
            (key, folded, entity.kb, entity.key, source, times, written[folded])
            for (key, folded, entity), times in counts.items()
            if entity.kb or entity in (NIL, NO_MENTION)  # a gold that nobody found names no entity
        ]
        with self._db.write() as connection:
            connection.execute(update(store_state).values(memory=secrets.token_hex(8)))
            connection.execute(delete(memories).where(memories.c.source == source))
            for first in range(0, len(rows), _BATCH):
                self._db.bulk(connection, insert(memories), rows[first : first + _BATCH])
        return len({folded for _, folded, _, entity, *_ in rows if entity != NO_MENTION.key})

    def forget(self, source: str) -> None:
        """Forget what a source said."""
        with self._db.write() as connection:
            connection.execute(update(store_state).values(memory=secrets.token_hex(8)))
            connection.execute(delete(memories).where(memories.c.source == source))

    def sources(self) -> dict[str, int]:
        """The sources that were learnt from, and how many surfaces each told."""
        m = memories.c
        query = (
            select(m.source, func.count(m.folded.distinct()))
            .where(m.entity != NO_MENTION.key)
            .group_by(m.source)
        )
        return {str(name): int(number) for name, number in self._db.rows(query)}

    def state(self) -> str:
        """Another text after every change of the memory."""
        return str(self._db.rows(select(store_state.c.memory))[0][0])

    def meanings(self, keys: Iterable[str]) -> Mapping[str, list[Meaning]]:
        """What surfaces with these keys meant, all sources together."""
        wanted = sorted(set(keys))
        found: dict[str, list[Meaning]] = defaultdict(list)
        for first in range(0, len(wanted), _LOOKUP):
            part = wanted[first : first + _LOOKUP]
            for one in self._read(self._query().where(memories.c.key.in_(part))):
                found[one.key].append(one)
        return found

    def all(self) -> Iterator[Meaning]:
        """Everything, in the order of the surfaces, a page at a time."""
        m = memories.c
        query = self._query().limit(_BATCH)
        page = self._read(query)
        while page:
            yield from page
            last = page[-1]
            after = tuple_(m.key, m.folded, m.kb, m.entity) > (*last[:2], *last.entity)
            page = self._read(query.where(after)) if len(page) == _BATCH else []

    def _query(self) -> Select[Any]:
        m = memories.c
        parts = (m.key, m.folded, m.kb, m.entity)
        return (
            select(*parts, func.sum(m.count), func.min(m.surface)).group_by(*parts).order_by(*parts)
        )

    def _read(self, query: Select[Any]) -> list[Meaning]:
        return [
            Meaning(str(key), str(folded), EntityId(str(kb), str(entity)), float(times), str(text))
            for key, folded, kb, entity, times, text in self._db.rows(query)
        ]


class PartOfMemory:
    """A memory without what some documents say."""

    def __init__(self, whole: MemoryTable, documents: Iterable[Document]) -> None:
        self._whole = whole
        self._less: dict[tuple[str, str, EntityId], float] = defaultdict(float)
        for document in documents:
            for one in meanings(document.mentions):
                self._less[one[:3]] += one.times

    def meanings(self, keys: Iterable[str]) -> Mapping[str, Sequence[Meaning]]:
        """What surfaces with these keys meant elsewhere."""
        return {
            key: [
                one._replace(times=times)
                for one in found
                if (times := one.times - self._less.get(one[:3], 0.0)) > _NOTHING
            ]
            for key, found in self._whole.meanings(keys).items()
        }
