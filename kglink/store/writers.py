"""Writes and removes records with the rows that belong to them.

A batch is compared with what is there first (`plan_batch`), so that only what is new or other
than before is written.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Select,
    Table,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import Update

from kglink.errors import RecordError, UnknownNameError
from kglink.store.database import Database, chunks
from kglink.store.overlaps import forget_runs
from kglink.store.prepared import Prepared, record_place
from kglink.store.schema import (
    aliases,
    documents,
    entities,
    golds,
    id_range,
    ingests,
    kbs,
    mappings,
    mentions,
    overlaps,
    parents,
    xrefs,
)
from kglink.store.verdicts import take_back_verdicts, touch

#: How many keys are looked up in one statement: it is compiled once, with all its parameters.
LOOKUP_SIZE = 250
#: How many records are removed in one transaction.
REMOVAL_BATCH = 2000


class Plan(NamedTuple):
    """A batch by what must happen to its records; each with the id of its row."""

    added: list[tuple[int, Prepared]]
    changed: list[tuple[int, Prepared]]
    unchanged: list[tuple[int, Prepared]]
    duplicates: list[RecordError]


class _Known(NamedTuple):
    id: int
    content_hash: str
    run: int
    record: int


class Writer:
    """Writes one kind of record: into ``table``, then the rows of its parts.

    The columns of ``table`` are id, KB, key, the fields of a record, content hash, run, record.
    The first column of a part is the id of the record that the row belongs to.
    """

    def __init__(self, table: Table, *parts: Table) -> None:
        self.table = table
        names = table.c.keys()
        self._insert = insert(table)
        self._change = _setting(table, names[names.index("key") + 1 :])
        self._mark = _setting(table, ["run", "record"])
        self._delete = delete(table).where(table.c.id == bindparam("owner"))
        self._insert_parts = [insert(part) for part in parts]
        # Backwards: a gold belongs to a mention.
        self._delete_parts = [
            delete(part).where(part.c[0] == bindparam("owner")) for part in reversed(parts)
        ]

    def write(self, db: Database, connection: Connection, kb_id: int, run: int, plan: Plan) -> None:
        """Carry out the plan of a batch."""
        added = [
            (id_, kb_id, r.key, *r.fields, r.content_hash, run, r.number) for id_, r in plan.added
        ]
        changed = [(*r.fields, r.content_hash, run, r.number, id_) for id_, r in plan.changed]
        db.bulk(connection, self._insert, added)
        self._remove_parts(db, connection, [id_ for id_, _ in plan.changed])
        db.bulk(connection, self._change, changed)
        placed = plan.added + plan.changed
        for number, statement in enumerate(self._insert_parts):
            rows = [(id_, *row) for id_, record in placed for row in record.parts[number]]
            db.bulk(connection, statement, rows)
        db.bulk(connection, self._mark, [(run, r.number, id_) for id_, r in plan.unchanged])

    def remove(self, db: Database, connection: Connection, ids: Sequence[int]) -> None:
        """Remove records and all that belongs to them."""
        self._remove_parts(db, connection, ids)
        db.bulk(connection, self._delete, [(id_,) for id_ in ids])

    def _remove_parts(self, db: Database, connection: Connection, ids: Sequence[int]) -> None:
        for statement in self._delete_parts:
            db.bulk(connection, statement, [(id_,) for id_ in ids])


def _setting(table: Table, names: Sequence[str]) -> Update:
    values: list[tuple[Column[Any], BindParameter[Any]]] = [
        (table.c[name], bindparam(f"{name}_")) for name in names
    ]
    return update(table).ordered_values(*values).where(table.c.id == bindparam("owner"))


ENTITIES = Writer(entities, aliases, xrefs, parents)
DOCUMENTS = Writer(documents, mentions, golds)
MAPPINGS = Writer(mappings)
WRITERS = (ENTITIES, DOCUMENTS, MAPPINGS)


# ------------------------------------------------------------------------------ planning
def plan_batch(
    db: Database,
    connection: Connection,
    table: Table,
    kb_id: int,
    run: int,
    batch: Sequence[Prepared],
) -> Plan:
    """Compare a batch with the rows of ``table``, and find the keys that this run saw before."""
    known = _known_rows(db, connection, table, kb_id, [record.key for record in batch])
    next_id = _next_id(connection, table, kb_id)
    first_of: dict[str, int] = {}
    plan: Plan = Plan([], [], [], [])
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
    for wanted in chunks(keys, LOOKUP_SIZE):
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


# ------------------------------------------------------------------------------ removal
def stale_ids(db: Database, table: Table, kb_id: int, run: int) -> Iterator[list[int]]:
    """The rows of a KB that ``run`` has not seen, in batches that may be removed meanwhile."""
    yield from _ids(db, table, kb_id, table.c.run != run)


def find_kb(db: Database, name: str) -> int:
    """The internal id of a KB that may be half-way removed."""
    ids = {row[0]: row[1] for row in db.rows(select(kbs.c.name, kbs.c.id))}
    if name not in ids:
        raise UnknownNameError("KB", name, ids)
    return int(ids[name])


def remove_kb(db: Database, kb_id: int, name: str) -> None:
    """Remove a KB; what people judged of its overlaps is kept for the day it comes back."""
    mine = kbs.c.id == kb_id
    with db.write() as connection:
        # From here on it is no KB any more; a killed removal is finished by the next one.
        connection.execute(update(kbs).where(mine).values(removing=1))
        connection.execute(delete(ingests).where(ingests.c.kb_id == kb_id))
    for writer in WRITERS:
        for ids in _ids(db, writer.table, kb_id):
            with db.write() as connection:
                writer.remove(db, connection, ids)
    with db.write() as connection:
        touch(connection)
        forget_runs(connection, name)
        take_back_verdicts(connection, name)
        touches = or_(overlaps.c.left_kb == name, overlaps.c.right_kb == name)
        connection.execute(delete(overlaps).where(touches, overlaps.c.verdict.is_(None)))
        connection.execute(delete(kbs).where(mine))


def _ids(
    db: Database, table: Table, kb_id: int, *where: ColumnElement[bool]
) -> Iterator[list[int]]:
    first, stop = id_range(kb_id)
    ids = table.c.id
    while True:
        query = (
            select(ids).where(ids >= first, ids < stop, *where).order_by(ids).limit(REMOVAL_BATCH)
        )
        page = [row[0] for row in db.rows(query)]
        if page:
            yield page
        if len(page) < REMOVAL_BATCH:
            return
        first = page[-1] + 1
