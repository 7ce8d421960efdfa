"""Writes and removes records with the rows that belong to them.

Golds are written as the source has them, under the KB name "": `kglink.store.golds` finds their
entities when the whole source is in, so that documents may stand before the entities they name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import BindParameter, Column, Table, bindparam, delete, insert, update
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import Update

from kglink.store.batches import Plan, Prepared
from kglink.store.content import PreparedDocument, PreparedEntity, PreparedMapping
from kglink.store.database import Database, Row
from kglink.store.schema import (
    aliases,
    documents,
    entities,
    golds,
    mappings,
    mentions,
    parents,
    xrefs,
)

P = TypeVar("P", bound=Prepared)
#: Records with the ids of their rows.
Placed = list[tuple[int, P]]


class Part(NamedTuple, Generic[P]):
    """A table of rows that belong to records; their first column is the record's id."""

    table: Table
    rows: Callable[[Placed[P]], list[Row]]


class Writer(Generic[P]):
    """Writes one kind of record: into ``table``, then into its ``parts``.

    The columns of ``table`` are id, KB, key, the fields of a record, content hash, run, record.
    """

    def __init__(self, table: Table, *parts: Part[P]) -> None:
        self.table = table
        names = table.c.keys()
        self._insert = insert(table)
        self._change = _setting(table, names[names.index("key") + 1 :])
        self._mark = _setting(table, ["run", "record"])
        self._delete = delete(table).where(table.c.id == bindparam("owner"))
        self._parts = [(insert(part.table), part.rows) for part in parts]
        # Backwards: a gold belongs to a mention.
        self._delete_parts = [
            delete(part.table).where(part.table.c[0] == bindparam("owner"))
            for part in reversed(parts)
        ]

    def write(
        self, db: Database, connection: Connection, kb_id: int, run: int, plan: Plan[P]
    ) -> None:
        """Carry out the plan of a batch."""
        added = [
            (id_, kb_id, r.key, *r.fields, r.content_hash, run, r.number) for id_, r in plan.added
        ]
        changed = [(*r.fields, r.content_hash, run, r.number, id_) for id_, r in plan.changed]
        db.bulk(connection, self._insert, added)
        self._remove_parts(db, connection, [id_ for id_, _ in plan.changed])
        db.bulk(connection, self._change, changed)
        placed = plan.added + plan.changed
        for statement, rows_of in self._parts:
            db.bulk(connection, statement, rows_of(placed))
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


ENTITIES: Writer[PreparedEntity] = Writer(
    entities,
    Part(aliases, lambda of: [(i, n, *row) for i, e in of for n, row in enumerate(e.aliases)]),
    Part(xrefs, lambda of: [(i, n, *row) for i, e in of for n, row in enumerate(e.xrefs)]),
    Part(parents, lambda of: [(i, n, key) for i, e in of for n, key in enumerate(e.parents)]),
)
DOCUMENTS: Writer[PreparedDocument] = Writer(
    documents,
    Part(mentions, lambda of: [(i, n, *row) for i, d in of for n, row in enumerate(d.mentions)]),
    Part(golds, lambda of: [(i, m, n, "", text) for i, d in of for m, n, text in d.golds]),
)
MAPPINGS: Writer[PreparedMapping] = Writer(mappings)
