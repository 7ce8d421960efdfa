"""What surfaces meant in annotated documents: counts by surface and entity.

Memory names entities by KB and key, so it survives updates of a KB, and its removal and return. It
is learnt from the documents of one KB at a time; learning from the same again takes the place of
what was there. Documents that are in two KBs are counted once.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Select, delete, func, insert, select, tuple_, update

from kglink.errors import StoreError
from kglink.files.digest import digest_of
from kglink.records import NIL, NO_MENTION, Document, EntityId, Mention
from kglink.store.database import Database
from kglink.store.kbs import kb_ids
from kglink.store.occurrences import Meaning, Occurrences
from kglink.store.schema import documents as documents_table
from kglink.store.schema import memories, store_state
from kglink.text.fold import fold
from kglink.text.name_words import name_key

_BATCH = 2000
_LOOKUP = 500
#: Less than the smallest part of a mention: what is left of sums that should be zero.
_NOTHING = 1e-6
#: What no text of a store has: NUL, and half of a surrogate pair.
_NEVER_STORED = re.compile("[\0\ud800-\udfff]")
#: Places of a document that look like mentions and are not annotated.
Unmarked = Callable[[Document], Iterable[str]]


def meanings(mention: Mention, kbs: Collection[str] = ()) -> Iterator[Meaning]:
    """What an annotated mention says of its surface, in documents that are annotated with KBs."""
    if mention.gold is None:
        return
    golds = mention.gold or (NIL,)
    in_kb = Counter(one.kb for one in golds)
    for one in golds:
        if one.kb or one == NIL:  # a gold that nobody found names no entity
            yield _meaning(mention.surface, one, 1 / in_kb[one.kb])
    for kb in kbs if mention.gold else ():
        if kb not in in_kb:
            yield _meaning(mention.surface, EntityId(kb, ""), 1)


def _meaning(surface: str, entity: EntityId, times: float) -> Meaning:
    folded = fold(surface) or surface
    return Meaning(name_key(folded), folded, entity, times, surface)


class MemoryTable:
    """The memory of a store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def learn(
        self, source: str, documents: Iterable[Document], unmarked: Unmarked, kbs: Collection[str]
    ) -> int:
        """Take what these documents say in the place of what ``source`` said; its surfaces."""
        told_elsewhere = self._told_elsewhere(source)
        with Occurrences() as seen:
            for document in documents:
                if document.id in told_elsewhere:
                    continue
                for mention in document.mentions:
                    place = mention.start, mention.end
                    seen.add(document.text, place, meanings(mention, kbs))
                for at, surface in enumerate(unmarked(document)):
                    seen.add(document.text, (-1, at), [_meaning(surface, NO_MENTION, 1)])
            rows = (
                (one.key, one.folded, *one.entity, source, one.times, one.surface)
                for one in seen.summed()
            )
            with self._db.write() as connection:
                if self._told_elsewhere(source) - told_elsewhere:
                    raise StoreError(
                        f"another process has learnt some documents of {source!r} meanwhile",
                        hint="Run the same command again: each document counts once.",
                    )
                connection.execute(update(store_state).values(memory=secrets.token_hex(8)))
                connection.execute(delete(memories).where(memories.c.source == source))
                while batch := list(islice(rows, _BATCH)):
                    self._db.bulk(connection, insert(memories), batch)
        return self.sources().get(source, 0)

    def _told_elsewhere(self, source: str) -> set[str]:
        """The documents of a source that stand in others which were learnt, mentions and all."""
        with self._db.read() as connection:
            numbers = kb_ids(connection)
        others = [numbers[name] for name in self.sources() if name in numbers and name != source]
        if source not in numbers or not others:
            return set()
        own, other = documents_table.alias("own"), documents_table.alias("other")
        query = (
            select(own.c.key)
            .distinct()
            .join_from(own, other, other.c.content_hash == own.c.content_hash)
            .where(own.c.kb_id == numbers[source], other.c.kb_id.in_(others))
        )
        return {str(key) for (key,) in self._db.rows(query)}

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

    def kbs(self) -> dict[str, float]:
        """The KBs whose entities mentions meant, and how many did."""
        m = memories.c
        query = select(m.kb, func.sum(m.count)).where(m.kb != "", m.entity != "").group_by(m.kb)
        return {str(name): float(number) for name, number in self._db.rows(query)}

    def surfaces(self, most: int) -> list[tuple[str, str, str]]:
        """The surfaces that meant an entity, those first that did so most often.

        Of each its key, itself folded, and one of its spellings.
        """
        m = memories.c
        query = (
            select(m.key, m.folded, func.min(m.surface))
            .where(m.kb != "", m.entity != "")
            .group_by(m.key, m.folded)
            .order_by(func.sum(m.count).desc(), m.key, m.folded)
            .limit(most)
        )
        return [(str(key), str(folded), str(text)) for key, folded, text in self._db.rows(query)]

    def state(self) -> str:
        """Another text after every change of the memory."""
        return str(self._db.rows(select(store_state.c.memory))[0][0])

    def meanings(self, keys: Iterable[str]) -> Mapping[str, list[Meaning]]:
        """What surfaces with these keys meant, all sources together."""
        wanted = sorted(key for key in set(keys) if not _NEVER_STORED.search(key))
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
        kbs = whole.kbs()
        for document in documents:
            for mention in document.mentions:
                for one in meanings(mention, kbs):
                    self._less[one[:3]] += one.times

    def meanings(self, keys: Iterable[str]) -> Mapping[str, Sequence[Meaning]]:
        """What surfaces with these keys meant elsewhere."""
        found = self._whole.meanings(keys)
        return {key: list(self._elsewhere(told)) for key, told in found.items()}

    def all_meanings(self) -> Iterator[Meaning]:
        """Everything that was told elsewhere."""
        return self._elsewhere(self._whole.all())

    def memory_sources(self) -> dict[str, int]:
        """The sources that were learnt from, as in the whole memory."""
        return self._whole.sources()

    def memory_state(self) -> str:
        """Another text for every other part."""
        return digest_of([self._whole.state(), repr(sorted(self._less.items()))])

    def _elsewhere(self, told: Iterable[Meaning]) -> Iterator[Meaning]:
        for one in told:
            times = one.times - self._less.get(one[:3], 0.0)
            if times > _NOTHING:
                yield one._replace(times=times)
