"""What surfaces meant in annotated documents: counts by surface and entity.

Memory names entities by KB and key, so it survives updates of a KB, and its removal and return. It
is learnt from the documents of one KB at a time; learning from the same again takes the place of
what was there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import delete, func, insert, select

from kglink.records import Document, EntityId, Mention
from kglink.store.database import Database
from kglink.store.schema import memories
from kglink.text.fold import fold
from kglink.text.name_words import name_key

_BATCH = 2000
_LOOKUP = 500
#: Less than the smallest part of a mention: what is left of sums that should be zero.
_NOTHING = 1e-6
#: The entity that a mention of nothing in any KB means.
NIL = EntityId("", "")


class Meaning(NamedTuple):
    """A surface meant an entity, or NIL, so often.

    ``key`` is one for all inflections of ``folded``. A mention with several right answers in one
    KB counts a part for each.
    """

    key: str
    folded: str
    entity: EntityId
    times: float


def meanings(mentions: Iterable[Mention]) -> list[Meaning]:
    """What some annotated mentions say of their surfaces."""
    counts: Counter[tuple[str, EntityId]] = Counter()
    for mention in mentions:
        if mention.gold is None:
            continue
        golds = mention.gold or (NIL,)
        in_kb = Counter(one.kb for one in golds)
        folded = fold(mention.surface) or mention.surface
        for one in golds:
            counts[folded, one] += 1 / in_kb[one.kb]  # type: ignore[assignment]  # parts of one
    return [
        Meaning(name_key(folded), folded, one, count) for (folded, one), count in counts.items()
    ]


class PartOfMemory:
    """A memory without what some documents say."""

    def __init__(self, whole: MemoryTable, documents: Iterable[Document]) -> None:
        self._whole = whole
        self._less = Counter[tuple[str, str, EntityId]]()
        for document in documents:
            for meaning in meanings(document.mentions):
                self._less[meaning[:3]] += meaning.times  # type: ignore[assignment]  # parts of one

    def meanings(self, keys: Iterable[str]) -> Mapping[str, list[Meaning]]:
        """What surfaces with these keys meant elsewhere."""
        return {
            key: [
                one._replace(times=times)
                for one in found
                if (times := one.times - self._less[one[:3]]) > _NOTHING
            ]
            for key, found in self._whole.meanings(keys).items()
        }


class MemoryTable:
    """The memory of a store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def learn(self, source: str, documents: Iterable[Document]) -> int:
        """Take what these documents say in the place of what ``source`` said; its surfaces."""
        counts: Counter[tuple[str, str, EntityId]] = Counter()
        for document in documents:
            for meaning in meanings(document.mentions):
                counts[meaning[:3]] += meaning.times  # type: ignore[assignment]  # parts of one
        rows = [
            (key, folded, entity.kb, entity.key, source, count)
            for (key, folded, entity), count in counts.items()
            if entity.kb or entity == NIL  # golds that nobody found name no entity
        ]
        with self._db.write() as connection:
            connection.execute(delete(memories).where(memories.c.source == source))
            for first in range(0, len(rows), _BATCH):
                self._db.bulk(connection, insert(memories), rows[first : first + _BATCH])
        return len({row[1] for row in rows})

    def forget(self, source: str) -> None:
        """Forget what a source said."""
        with self._db.write() as connection:
            connection.execute(delete(memories).where(memories.c.source == source))

    def sources(self) -> dict[str, int]:
        """The sources that were learnt from, and how many surfaces each told."""
        count = func.count(memories.c.folded.distinct())
        query = select(memories.c.source, count).group_by(memories.c.source)
        return {str(name): int(number) for name, number in self._db.rows(query)}

    def meanings(self, keys: Iterable[str]) -> Mapping[str, list[Meaning]]:
        """What surfaces with these keys meant, all sources together."""
        wanted = sorted(set(keys))
        m = memories.c
        found: dict[str, list[Meaning]] = defaultdict(list)
        for first in range(0, len(wanted), _LOOKUP):
            query = (
                select(m.key, m.folded, m.kb, m.entity, func.sum(m.count))
                .where(m.key.in_(wanted[first : first + _LOOKUP]))
                .group_by(m.key, m.folded, m.kb, m.entity)
                .order_by(m.key, m.folded, m.kb, m.entity)
            )
            for key, folded, kb, entity, count in self._db.rows(query):
                found[str(key)].append(
                    Meaning(str(key), str(folded), EntityId(str(kb), str(entity)), float(count))
                )
        return found
