"""Batches of records: how a stream is cut, and what must happen to each record of a batch."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sqlalchemy import BindParameter, Select, Table, bindparam, func, select
from sqlalchemy.engine import Connection

from kglink.errors import RecordError
from kglink.records import CodeMapping, Document, Record
from kglink.store.content import (
    PreparedDocument,
    PreparedEntity,
    PreparedMapping,
    prepare_document,
    prepare_entity,
    prepare_mapping,
    record_place,
)
from kglink.store.database import Database
from kglink.store.schema import id_range
from kglink.store.values import IngestJob

#: A batch ends early at this many characters, so that long texts do not fill the memory.
BATCH_CHARACTERS = 8_000_000

#: How many keys are looked up in one statement: it is compiled once, with all its parameters.
LOOKUP_SIZE = 250


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
    def fields(self) -> tuple[Any, ...]:
        """Its columns from the key to the hash."""
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


class Batch:
    """Records made ready to be written in one transaction."""

    def __init__(self, job: IngestJob) -> None:
        self._job = job
        self._characters = 0
        self.read = 0
        self.entities: list[PreparedEntity] = []
        self.documents: list[PreparedDocument] = []
        self.mappings: list[PreparedMapping] = []

    def add(self, number: int, record: Record) -> None:
        """Take in the record of that number; a bad one goes to the job's problems instead."""
        self.read = number
        try:
            if isinstance(record, Document):
                self.documents.append(prepare_document(number, record, self._job.split))
                self._characters += len(record.text)
            elif isinstance(record, CodeMapping):
                self.mappings.append(prepare_mapping(number, record))
            else:
                self.entities.append(prepare_entity(number, record, self._job.language))
                self._characters += len(record.description)
        except RecordError as error:
            self._job.problems.report(error)

    def is_full(self) -> bool:
        """Whether it is time to write."""
        size = len(self.entities) + len(self.documents) + len(self.mappings)
        return size >= self._job.batch_size or self._characters >= BATCH_CHARACTERS


def batches(records: Iterable[Record], job: IngestJob, skip: int) -> Iterator[Batch]:
    """Cut a stream into batches, without the first ``skip`` records."""
    batch = Batch(job)
    for number, record in enumerate(records, start=1):
        if number <= skip:
            continue
        batch.add(number, record)
        if batch.is_full():
            yield batch
            batch = Batch(job)
    if batch.read:
        yield batch


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
            known[row.key] = _Known(row.id, row.content_hash, row.run, row.record)
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
