"""What KBs there are, and which of them are unfinished."""

from __future__ import annotations

import dataclasses

from sqlalchemy import ColumnElement, Table, func, select
from sqlalchemy.engine import Connection, RowMapping

from kglink.errors import StoreError, UnknownNameError
from kglink.store.database import Database
from kglink.store.schema import (
    RETIRED,
    aliases,
    documents,
    entities,
    id_range,
    ingests,
    kbs,
    mappings,
    mentions,
)
from kglink.store.values import KBInfo, Totals, json_of


def read_kbs(db: Database) -> list[KBInfo]:
    """All KBs in the order in which they were added."""
    query = (
        select(kbs, ingests.c.kb_id.label("running"))
        .join_from(kbs, ingests, ingests.c.kb_id == kbs.c.id, isouter=True)
        .where(kbs.c.removing == 0)
        .order_by(kbs.c.id)
    )
    with db.read() as connection:
        return [_kb_info(row) for row in connection.execute(query).mappings()]


def is_readable() -> ColumnElement[bool]:
    """Whether a row of ``kbs`` has a revision that readers see."""
    return (kbs.c.removing == 0) & (kbs.c.revision > 0)


def kb_ids(connection: Connection, *, also: int = -1) -> dict[str, int]:
    """The numbers of all KBs by name, in the order in which they were added.

    Of ``also`` too, by its number: a KB of which readers see no revision yet.
    """
    query = select(kbs.c.name, kbs.c.id).where(is_readable() | (kbs.c.id == also))
    query = query.order_by(kbs.c.id)
    return {row[0]: row[1] for row in connection.execute(query)}


def kb_id(connection: Connection, name: str) -> int:
    """The number of a KB; UnknownNameError where there is none of that name."""
    ids = kb_ids(connection)
    if name not in ids:
        query = select(kbs.c.id).where(kbs.c.name == name, kbs.c.removing == 0)
        if connection.scalar(query) is not None:
            raise StoreError(
                f"KB {name!r} is not complete: its first add-kb has not come to its end",
                hint="Run kglink add-kb for it again; it goes on where it stopped.",
            )
        raise UnknownNameError("KB", name, ids)
    return ids[name]


def count(connection: Connection, kb_id: int) -> Totals:
    """Count what readers see of a KB."""
    first, stop = id_range(kb_id)

    def records(table: Table, *where: ColumnElement[bool]) -> int:
        query = select(func.count()).where(table.c.kb_id == kb_id, *where)
        return connection.scalar(query) or 0

    def parts(table: Table, owners: Table) -> int:
        """The whole range, which is fast, without what awaits its removal."""
        owner = table.c[0]
        query = select(func.count()).where(owner >= first, owner < stop)
        retired = select(func.count()).select_from(owners).join(table, owner == owners.c.id)
        retired = retired.where(owners.c.kb_id == kb_id + RETIRED)
        return (connection.scalar(query) or 0) - (connection.scalar(retired) or 0)

    return Totals(
        entities=records(entities),
        with_description=records(entities, entities.c.description != ""),
        aliases=parts(aliases, entities),
        documents=records(documents),
        mentions=parts(mentions, documents),
        mappings=records(mappings),
    )


def find_problems(db: Database) -> list[str]:
    """All that is broken or unfinished and not at work; an empty list for a healthy store."""
    try:
        return db.problems() + _unfinished(db)
    except StoreError as error:
        return [str(error)]


def _unfinished(db: Database) -> list[str]:
    query = (
        select(kbs.c.name, kbs.c.removing, kbs.c.revision, ingests.c.read, ingests.c.started_at)
        .join_from(kbs, ingests, ingests.c.kb_id == kbs.c.id, isouter=True)
        .order_by(kbs.c.id)
    )
    found = []
    for name, removing, revision, read, started_at in db.rows(query):
        if removing:
            text = f"KB {name!r}: its removal stopped half-way; run kglink kbs remove again"
        elif read is not None:
            text = (
                f"KB {name!r}: add-kb of {started_at} stopped after {read:,} records; "
                "run it again to go on"
            )
        elif not revision:
            text = f"KB {name!r}: its first add-kb stopped; run it again"
        else:
            continue
        with db.exclusive(name) as idle:
            if idle:
                found.append(text)
    return found


def _kb_info(row: RowMapping) -> KBInfo:
    totals = {field.name: row[field.name] for field in dataclasses.fields(Totals)}
    options = json_of(row["settings"], dict, "kbs.settings").get("options")
    return KBInfo(
        name=row["name"],
        adapter=row["adapter"],
        source=row["source"],
        revision=row["revision"],
        licence=row["licence"],
        links_to=tuple(map(str, json_of(row["links_to"], list, "kbs.links_to"))),
        updated_at=row["updated_at"],
        complete=row["revision"] > 0,
        updating=row["revision"] > 0 and row["running"] is not None,
        options=options if isinstance(options, dict) else {},
        **totals,
    )
