"""Writes and removes records with the rows that belong to them.

A batch is compared with what is there first (`plan_batch`): what is new or other than before
becomes a new record, what is the same is marked as seen. An update's new records are staged until
`publish_staged` shows all of them to readers at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.engine import Connection

from kglink.errors import RecordError, UnknownNameError
from kglink.store.database import Database, Item, chunks
from kglink.store.kbs import highest_id
from kglink.store.overlaps import forget_runs
from kglink.store.prepared import Prepared, record_place
from kglink.store.schema import (
    RETIRED,
    STAGED,
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
    removed_entities,
    removed_kbs,
    xrefs,
)
from kglink.store.values import Tally
from kglink.store.verdicts import apply_mappings, take_back_verdicts, touch

#: How many keys are looked up in one statement: it is compiled once, with all its parameters.
LOOKUP_SIZE = 250
#: How many records are removed in one transaction.
REMOVAL_BATCH = 20_000


class Plan(NamedTuple):
    """A batch by what must happen to its records; each with the id of its row."""

    added: list[tuple[int, Prepared]]
    changed: list[tuple[int, Prepared]]
    unchanged: list[tuple[int, Prepared]]
    duplicates: list[RecordError]

    @property
    def tally(self) -> Tally:
        """How many records of each kind there are."""
        return Tally(len(self.added), len(self.changed), 0, len(self.unchanged))


def _parameters(name: str, count: int) -> list[BindParameter[Any]]:
    return [bindparam(f"{name}_{number}") for number in range(count)]


class Writer:
    """Writes one kind of record: into ``table``, then the rows of its parts.

    The columns of ``table`` are id, KB, key, the fields of a record, content hash, run, record.
    The first column of a part is the id of the record that the row belongs to.
    """

    def __init__(self, table: Table, *parts: Table) -> None:
        self.table = table
        self._insert = insert(table)
        self._mark = (
            update(table)
            .ordered_values(*((table.c[name], bindparam(f"{name}_")) for name in ("run", "record")))
            .where(table.c.id == bindparam("owner"))
        )
        self._insert_parts = [insert(part) for part in parts]
        some = _parameters("owner", LOOKUP_SIZE)
        # Backwards: a gold belongs to a mention.
        owners = [*(part.c[0] for part in reversed(parts)), table.c.id]
        self._deletes = [delete(owner.table).where(owner.in_(some)) for owner in owners]

    def write(self, db: Database, connection: Connection, kb_id: int, run: int, plan: Plan) -> None:
        """Carry out the plan of a batch; new records get ``kb_id``."""
        placed = plan.added + plan.changed
        records = [
            (id_, kb_id, r.key, *r.fields, r.content_hash, run, r.number) for id_, r in placed
        ]
        db.bulk(connection, self._insert, records)
        parts = [record.parts(id_) for id_, record in placed]
        for number, statement in enumerate(self._insert_parts):
            rows = list(chain.from_iterable(its[number] for its in parts))
            db.bulk(connection, statement, rows)
        db.bulk(connection, self._mark, [(run, r.number, id_) for id_, r in plan.unchanged])

    def publish_staged(
        self, db: Database, connection: Connection, kb_id: int, run: int, *, merge: bool = False
    ) -> int:
        """Show readers what was staged, in the place of all that ``run`` did not see.

        With ``merge`` only in the place of what has the same keys. Says how many records readers
        do not see any more: the first of them are removed at once, the others are retired.
        """
        c = self.table.c
        unseen = (c.kb_id == kb_id) & (c.run != run)
        if merge:
            new = self.table.alias("staged")
            unseen &= c.key.in_(select(new.c.key).where(new.c.kb_id == kb_id + STAGED))
        first = select(c.id).where(unseen).limit(REMOVAL_BATCH)
        gone = connection.scalars(first).all()
        self.remove(db, connection, gone)
        retired = 0
        if len(gone) == REMOVAL_BATCH:
            others = update(self.table).where(unseen).values(kb_id=kb_id + RETIRED)
            retired = connection.execute(others).rowcount
        staged = update(self.table).where(c.kb_id == kb_id + STAGED)
        connection.execute(staged.values(kb_id=kb_id))
        return len(gone) + retired

    def remove(self, db: Database, connection: Connection, ids: Sequence[int]) -> None:
        """Remove records and all that belongs to them: in the order of ids, twice as fast."""
        rows = [tuple(_filled(some)) for some in chunks(sorted(ids), LOOKUP_SIZE)]
        for statement in self._deletes:
            db.bulk(connection, statement, rows)


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
    *,
    has_staged: bool,
    outdated: Callable[[Mapping[int, Prepared]], Collection[int]] | None,
) -> Plan:
    """Compare a batch with the rows of ``table``, and find the keys that this run saw before.

    ``outdated`` says which rows must be made anew though their record is the same.
    """
    owners = (kb_id, kb_id + STAGED) if has_staged else (kb_id,)
    query = _lookup(table, len(owners))
    known: dict[str, Any] = {}
    for keys in chunks([record.key for record in batch], LOOKUP_SIZE):
        for found in db.raw_rows(connection, query, (*owners, *_filled(keys))):
            if found.run == run or found.key not in known:  # the staged one of two
                known[found.key] = found
    next_id = max(id_range(kb_id)[0], highest_id(connection, kb_id, table) + 1)
    if table is entities:  # the ids of entities that were removed do not come again
        used = connection.scalar(select(kbs.c.last_id).where(kbs.c.id == kb_id)) or 0
        next_id = max(next_id, used + 1)
    seen = ((known[record.key], record) for record in batch if record.key in known)
    same = {row.id: one for row, one in seen if row.content_hash == one.content_hash}
    old = outdated(same) if outdated else ()
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
        elif row.content_hash != record.content_hash or row.id in old:
            plan.changed.append((next_id, record))
            next_id += 1
        else:
            plan.unchanged.append((row.id, record))
    return plan


def _filled(some: list[Item]) -> list[Item]:
    """As many as a statement takes, the last one repeated."""
    return some + [some[-1]] * (LOOKUP_SIZE - len(some))


@functools.cache
def _lookup(table: Table, owners: int) -> Select[Any]:
    c = table.c
    query = select(c.key, c.id, c.content_hash, c.run, c.record)
    mine = c.kb_id.in_(_parameters("kb", owners))
    return query.where(mine, c.key.in_(_parameters("key", LOOKUP_SIZE)))


def _duplicate(record: Prepared, first: int) -> RecordError:
    return RecordError(
        "an id that an earlier record has",
        where=record_place(record.number, record.key),
        hint=f"Record {first:,} has the same id; remove one, or use --on-error skip "
        "to keep the first.",
    )


# ------------------------------------------------------------------------------ removal
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
        _remove(db, writer, writer.table.c.id, *id_range(kb_id))
    with db.write() as connection:
        touch(connection)
        forget_runs(connection, name)
        if take_back_verdicts(connection, name):
            apply_mappings(db, connection)
        touches = or_(overlaps.c.left_kb == name, overlaps.c.right_kb == name)
        connection.execute(delete(overlaps).where(touches, overlaps.c.verdict.is_(None)))
        last = connection.scalar(select(kbs.c.revision).where(mine))
        if last:
            connection.execute(delete(removed_kbs).where(removed_kbs.c.name == name))
            connection.execute(insert(removed_kbs).values(name=name, revision=last))
        connection.execute(delete(removed_entities).where(removed_entities.c.kb_id == kb_id))
        connection.execute(delete(kbs).where(mine))


def note_removed(connection: Connection, kb_id: int, gone: ColumnElement[bool]) -> None:
    """Keep the keys of entities that the next revision takes away, with its number."""
    coming = select(kbs.c.revision + 1).where(kbs.c.id == kb_id).scalar_subquery()
    c = entities.c
    rows = select(c.kb_id, c.key, coming).where(c.kb_id == kb_id, gone)
    connection.execute(insert(removed_entities).from_select(["kb_id", "key", "revision"], rows))


def forget_returned(connection: Connection, kb_id: int) -> None:
    """Forget that entities were taken away that are there again."""
    c = removed_entities.c
    back = exists().where(entities.c.kb_id == kb_id, entities.c.key == c.key)
    connection.execute(delete(removed_entities).where(c.kb_id == kb_id, back))


def remove_hidden(db: Database, kb_id: int, *, all_of_it: bool = False) -> None:
    """Remove what was staged or retired, or ``all_of_it``: of a KB that has no revision yet."""
    for mark in (kb_id + STAGED, kb_id + RETIRED, *([kb_id] if all_of_it else [])):
        for writer in WRITERS:
            _remove(db, writer, writer.table.c.kb_id, mark, mark + 1)


def _remove(db: Database, writer: Writer, column: Column[Any], first: int, stop: int) -> None:
    """Remove the records whose ``column`` is in the half-open range, in small transactions."""
    query = select(writer.table.c.id).where(column >= first, column < stop)
    query = query.order_by(column).limit(REMOVAL_BATCH)
    while ids := [row[0] for row in db.rows(query)]:
        with db.write() as connection:
            writer.remove(db, connection, ids)
