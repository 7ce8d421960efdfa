"""Writes and removes entities with their aliases and cross-references."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, delete, insert, update
from sqlalchemy.engine import Connection

from kglink.store.batches import Plan
from kglink.store.content import PreparedEntity
from kglink.store.database import Database
from kglink.store.schema import aliases, entities, xrefs

_insert_entities = insert(entities)
_insert_aliases = insert(aliases)
_insert_xrefs = insert(xrefs)
_delete_aliases = delete(aliases).where(aliases.c.entity_id == bindparam("owner"))
_delete_xrefs = delete(xrefs).where(xrefs.c.entity_id == bindparam("owner"))
_delete_entities = delete(entities).where(entities.c.id == bindparam("owner"))
_mark_entities = (
    update(entities)
    .ordered_values((entities.c.run, bindparam("run_")), (entities.c.record, bindparam("record_")))
    .where(entities.c.id == bindparam("owner"))
)
_CHANGING = (
    *("title", "description", "type", "url", "popularity", "language"),
    *("content_hash", "run", "record"),
)
_change_entities = (
    update(entities)
    .ordered_values(*((entities.c[name], bindparam(f"{name}_")) for name in _CHANGING))
    .where(entities.c.id == bindparam("owner"))
)


def write_entities(
    db: Database, connection: Connection, kb_id: int, run: int, plan: Plan[PreparedEntity]
) -> None:
    """Carry out the plan of a batch."""
    db.bulk(
        connection,
        _insert_entities,
        [(id_, kb_id, e.key, *e.fields, e.content_hash, run, e.number) for id_, e in plan.added],
    )
    _remove_names(db, connection, [id_ for id_, _ in plan.changed])
    db.bulk(
        connection,
        _change_entities,
        [(*e.fields, e.content_hash, run, e.number, id_) for id_, e in plan.changed],
    )
    _insert_names(db, connection, plan.added + plan.changed)
    db.bulk(connection, _mark_entities, [(run, e.number, id_) for id_, e in plan.unchanged])


def remove_entities(db: Database, connection: Connection, ids: Sequence[int]) -> None:
    """Remove entities and all that belongs to them."""
    _remove_names(db, connection, ids)
    db.bulk(connection, _delete_entities, [(id_,) for id_ in ids])


def _insert_names(
    db: Database, connection: Connection, placed: Sequence[tuple[int, PreparedEntity]]
) -> None:
    alias_rows = [
        (id_, position, *alias)
        for id_, entity in placed
        for position, alias in enumerate(entity.aliases)
    ]
    xref_rows = [
        (id_, position, *xref)
        for id_, entity in placed
        for position, xref in enumerate(entity.xrefs)
    ]
    db.bulk(connection, _insert_aliases, alias_rows)
    db.bulk(connection, _insert_xrefs, xref_rows)


def _remove_names(db: Database, connection: Connection, ids: Sequence[int]) -> None:
    db.bulk(connection, _delete_aliases, [(id_,) for id_ in ids])
    db.bulk(connection, _delete_xrefs, [(id_,) for id_ in ids])
