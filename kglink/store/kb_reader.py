"""Reads what KBs there are."""

from __future__ import annotations

import dataclasses
import json

from sqlalchemy import select
from sqlalchemy.engine import Connection, RowMapping

from kglink.errors import UnknownNameError
from kglink.store.database import Database
from kglink.store.ingest_state import count
from kglink.store.schema import ingests, kbs
from kglink.store.values import KBInfo, Totals


def read_kbs(db: Database) -> list[KBInfo]:
    """All KBs in the order in which they were added."""
    query = (
        select(kbs, ingests.c.kb_id.label("running"))
        .join_from(kbs, ingests, ingests.c.kb_id == kbs.c.id, isouter=True)
        .where(kbs.c.removing == 0)
        .order_by(kbs.c.id)
    )
    with db.read() as connection:
        rows = connection.execute(query).mappings().all()
        return [_kb_info(connection, row) for row in rows]


def kb_ids(db: Database) -> dict[str, int]:
    """The internal ids of all KBs by name, in the order in which they were added."""
    query = select(kbs.c.name, kbs.c.id).where(kbs.c.removing == 0).order_by(kbs.c.id)
    return {row[0]: row[1] for row in db.rows(query)}


def kb_id(db: Database, name: str) -> int:
    """The internal id of a KB; UnknownNameError where there is none of that name."""
    ids = kb_ids(db)
    if name not in ids:
        raise UnknownNameError("KB", name, ids)
    return ids[name]


def _kb_info(connection: Connection, row: RowMapping) -> KBInfo:
    complete = row["running"] is None and not row["dirty"]
    # The stored totals are those of the last complete revision.
    totals = _stored_totals(row) if complete else count(connection, row["id"])
    return KBInfo(
        name=row["name"],
        adapter=row["adapter"],
        source=row["source"],
        revision=row["revision"],
        licence=row["licence"],
        links_to=tuple(json.loads(row["links_to"])),
        updated_at=row["updated_at"],
        complete=complete,
        **dataclasses.asdict(totals),
    )


def _stored_totals(row: RowMapping) -> Totals:
    return Totals(**{field.name: row[field.name] for field in dataclasses.fields(Totals)})
