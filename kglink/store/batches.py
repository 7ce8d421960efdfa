"""Batches of records: how a stream is cut, and what must happen to each record of a batch."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sqlalchemy import BindParameter, Select, Table, bindparam, func, select
from sqlalchemy.engine import Connection

from kglink.errors import RecordError
from kglink.records import Document, Entity, Record
from kglink.store.content import record_place
from kglink.store.database import Database
from kglink.store.schema import id_range

#: A batch ends early at this many characters, so that long texts do not fill the memory.
BATCH_CHARACTERS = 8_000_000

#: How many keys are looked up in one statement; SQLite takes 32,766 parameters.
LOOKUP_SIZE = 2000


class Prepared(Protocol):
    """A record ready to be written."""

    @property
    def number(self) -> int:
        """Its place in the source, from 1."""
        ...

    @property
    def key(self) -> str:
        """Its name in the KB."""
        ...

    @property
    def content_hash(self) -> str:
        """A hash of all that is stored of it."""
        ...


P = TypeVar("P", bound=Prepared)


class Plan(NamedTuple, Generic[P]):
    """A batch by what must happen to its records; each with the id of its row."""

    added: list[tuple[int, P]]
    changed: list[tuple[int, P]]
    unchanged: list[tuple[int, P]]
    duplicates: list[RecordError]


class _Known(NamedTuple):
    id: int
    content_hash: str
    run: int
    record: int


def batches(records: Iterable[Record], size: int, skip: int) -> Iterator[list[tuple[int, Record]]]:
    """Cut a stream into lists of (number from 1, record), without the first ``skip`` records."""
    batch: list[tuple[int, Record]] = []
    characters = 0
    for number, record in enumerate(records, start=1):
        if number <= skip:
            continue
        batch.append((number, record))
        characters += _weight(record)
        if len(batch) >= size or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _weight(record: Record) -> int:
    if isinstance(record, Document):
        return len(record.text)
    return len(record.description) + 32 * len(record.aliases)


def split_kinds(
    batch: Iterable[tuple[int, Record]],
) -> tuple[list[tuple[int, Entity]], list[tuple[int, Document]]]:
    """The entities and the documents of a batch."""
    found: list[tuple[int, Entity]] = []
    texts: list[tuple[int, Document]] = []
    for number, record in batch:
        if isinstance(record, Document):
            texts.append((number, record))
        else:
            found.append((number, record))
    return found, texts


def plan_batch(
    db: Database, connection: Connection, table: Table, kb_id: int, run: int, batch: Sequence[P]
) -> Plan[P]:
    """Compare a batch with the rows of ``table``, and find the keys that this run saw before."""
    known = _known_rows(db, connection, table, kb_id, [record.key for record in batch])
    next_id = _next_id(connection, table, kb_id)
    first_of: dict[str, int] = {}
    plan: Plan[P] = Plan([], [], [], [])
    for record in batch:
        row = known.get(record.key)
        first = first_of.setdefault(record.key, record.number)
        if first != record.number:
            plan.duplicates.append(_duplicate(record, first))
        elif row is None:
            plan.added.append((next_id, record))
            next_id += 1
        elif row.run == run:
            plan.duplicates.append(_duplicate(record, row.record))
        elif row.content_hash != record.content_hash:
            plan.changed.append((row.id, record))
        else:
            plan.unchanged.append((row.id, record))
    return plan


def _known_rows(
    db: Database, connection: Connection, table: Table, kb_id: int, keys: Sequence[str]
) -> dict[str, _Known]:
    query = _lookup(table)
    known: dict[str, _Known] = {}
    for start in range(0, len(keys), LOOKUP_SIZE):
        wanted = keys[start : start + LOOKUP_SIZE]
        filler = [wanted[-1]] * (LOOKUP_SIZE - len(wanted))
        for row in db.raw_rows(connection, query, (kb_id, *wanted, *filler)):
            known[row[0]] = _Known(row[1], row[2], row[3], row[4])
    return known


@functools.cache
def _lookup(table: Table) -> Select[Any]:
    c = table.c
    keys: list[BindParameter[str]] = [bindparam(f"key_{number}") for number in range(LOOKUP_SIZE)]
    query = select(c.key, c.id, c.content_hash, c.run, c.record)
    return query.where(c.kb_id == bindparam("kb"), c.key.in_(keys))


def _next_id(connection: Connection, table: Table, kb_id: int) -> int:
    first, stop = id_range(kb_id)
    ids = table.c.id
    last = connection.scalar(select(func.max(ids)).where(ids >= first, ids < stop))
    return first if last is None else last + 1


def _duplicate(record: Prepared, first: int) -> RecordError:
    return RecordError(
        "an id that an earlier record has",
        where=record_place(record.number, record.key),
        hint=f"Record {first:,} has the same id; remove one, or use --on-error skip "
        "to keep the first.",
    )
