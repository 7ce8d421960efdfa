"""Writes and removes mappings between codes."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, delete, insert, update
from sqlalchemy.engine import Connection

from kglink.store.batches import Plan
from kglink.store.content import PreparedMapping
from kglink.store.database import Database
from kglink.store.schema import mappings

_CHANGING = (
    *("subject", "subject_code", "object", "object_code", "predicate", "confidence", "verdict"),
    *("content_hash", "run", "record"),
)
_insert = insert(mappings)
_change = (
    update(mappings)
    .ordered_values(*((mappings.c[name], bindparam(f"{name}_")) for name in _CHANGING))
    .where(mappings.c.id == bindparam("owner"))
)
_mark = (
    update(mappings)
    .ordered_values((mappings.c.run, bindparam("run_")), (mappings.c.record, bindparam("record_")))
    .where(mappings.c.id == bindparam("owner"))
)
_delete = delete(mappings).where(mappings.c.id == bindparam("owner"))


def write_mappings(
    db: Database, connection: Connection, kb_id: int, run: int, plan: Plan[PreparedMapping]
) -> None:
    """Carry out the plan of a batch."""
    added = [(id_, kb_id, m.key, *m.fields, m.content_hash, run, m.number) for id_, m in plan.added]
    db.bulk(connection, _insert, added)
    changed = [(*m.fields, m.content_hash, run, m.number, id_) for id_, m in plan.changed]
    db.bulk(connection, _change, changed)
    db.bulk(connection, _mark, [(run, m.number, id_) for id_, m in plan.unchanged])


def remove_mappings(db: Database, connection: Connection, ids: Sequence[int]) -> None:
    """Remove mappings."""
    db.bulk(connection, _delete, [(id_,) for id_ in ids])
