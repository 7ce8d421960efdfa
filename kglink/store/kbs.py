"""What KBs there are, and which of them are unfinished."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.engine import Connection, RowMapping

from kglink.errors import StoreError, UnknownNameError
from kglink.store.database import Database
from kglink.store.schema import (
    aliases,
    documents,
    entities,
    id_range,
    ingests,
    kbs,
    mappings,
    mentions,
)
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


def count(connection: Connection, kb_id: int) -> Totals:
    """Count what a KB holds."""
    first, stop = id_range(kb_id)

    def rows(column: Any, *where: Any) -> int:
        query = select(func.count()).where(column >= first, column < stop, *where)
        return connection.scalar(query) or 0

    return Totals(
        entities=rows(entities.c.id),
        with_description=rows(entities.c.id, entities.c.description != ""),
        aliases=rows(aliases.c.entity_id),
        documents=rows(documents.c.id),
        mentions=rows(mentions.c.document_id),
        mappings=rows(mappings.c.id),
    )


def find_problems(db: Database) -> list[str]:
    """All that is broken or unfinished and not at work; an empty list for a healthy store."""
    try:
        return db.problems() + _unfinished(db)
    except StoreError as error:
        return [str(error)]


def _unfinished(db: Database) -> list[str]:
    query = (
        select(kbs.c.name, kbs.c.removing, kbs.c.dirty, ingests.c.read, ingests.c.started_at)
        .join_from(kbs, ingests, ingests.c.kb_id == kbs.c.id, isouter=True)
        .order_by(kbs.c.id)
    )
    found = []
    for name, removing, dirty, read, started_at in db.rows(query):
        if removing:
            text = f"KB {name!r}: its removal stopped half-way; run kglink kbs remove again"
        elif read is not None:
            text = (
                f"KB {name!r}: add-kb of {started_at} stopped after {read:,} records; "
                "run it again to go on"
            )
        elif dirty:
            text = f"KB {name!r}: an update stopped half-way; run add-kb again"
        else:
            continue
        with db.exclusive(name) as idle:
            if idle:
                found.append(text)
    return found


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
