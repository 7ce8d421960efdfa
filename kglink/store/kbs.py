"""What KBs there are, and which of them are unfinished."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    ScalarSelect,
    Select,
    Table,
    bindparam,
    case,
    func,
    select,
)
from sqlalchemy.engine import Connection

from kglink.errors import StoreError, UnknownNameError
from kglink.store.database import Database
from kglink.store.schema import (
    RETIRED,
    STAGED,
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

#: The adapter of records that no adapter has read: a program gave them, or `kglink promote`.
IN_MEMORY = "memory"
#: The columns that say how much a KB holds.
_TOTALS = tuple(one.name for one in dataclasses.fields(Totals))


def read_kbs(db: Database, *, half_removed: bool = False) -> list[KBInfo]:
    """All KBs in the order in which they were added; ``half_removed``: those that should go too."""
    query = (
        select(kbs, ingests.c.kb_id.label("running"))
        .join_from(kbs, ingests, ingests.c.kb_id == kbs.c.id, isouter=True)
        .where(kbs.c.removing.in_((0, int(half_removed))))
        .order_by(kbs.c.id)
    )
    with db.read() as connection:
        rows = connection.execute(query).mappings().all()
    found = []
    for row in rows:
        options = json_of(row["settings"], dict, "kbs.settings").get("options")
        same = ("name", "adapter", "source", "revision", "licence", "updated_at", "last_id")
        found.append(
            KBInfo(
                **{name: row[name] for name in (*same, *_TOTALS)},
                links_to=tuple(map(str, json_of(row["links_to"], list, "kbs.links_to"))),
                complete=row["revision"] > 0,
                updating=row["revision"] > 0 and row["running"] is not None,
                options=options if isinstance(options, dict) else {},
            )
        )
    return found


def is_readable() -> ColumnElement[bool]:
    """Whether a row of ``kbs`` has a revision that readers see."""
    return (kbs.c.removing == 0) & (kbs.c.revision > 0)


_NUMBERS = (
    select(kbs.c.name, kbs.c.id)
    .where(is_readable() | (kbs.c.id == bindparam("also")))
    .order_by(kbs.c.id)
)


def entity_exists(kb: Column[Any], key: Column[Any]) -> ColumnElement[bool]:
    """Whether the entity that two columns name is there."""
    return _entity(kb, key).exists()


def entity_number(kb: Column[Any], key: Column[Any]) -> ScalarSelect[Any]:
    """The number of the entity that two columns name; NULL where it is not there.

    It is looked up for each row: a server may answer `entity_exists` by reading all entities.
    """
    return _entity(kb, key).scalar_subquery()


def _entity(kb: Column[Any], key: Column[Any]) -> Select[Any]:
    joined = select(entities.c.id).join(kbs, kbs.c.id == entities.c.kb_id)
    return joined.where(kbs.c.name == kb, is_readable(), entities.c.key == key)


def kb_ids(connection: Connection, *, also: int = -1) -> dict[str, int]:
    """The numbers of all KBs by name, in the order in which they were added.

    Of ``also`` too, by its number: a KB of which readers see no revision yet.
    """
    return {row[0]: row[1] for row in connection.execute(_NUMBERS, {"also": also})}


def kb_id(connection: Connection, name: str) -> int:
    """The number of a KB; UnknownNameError where there is none of that name."""
    ids = kb_ids(connection)
    if name not in ids:
        query = select(kbs.c.id).where(kbs.c.name == name, kbs.c.removing == 0)
        if connection.scalar(query) is not None:
            raise StoreError(
                f"KB {name!r} is not complete: its first update is still running, or was stopped",
                hint="If it is running, wait. Otherwise run it again: it goes on where it stopped.",
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


def stored_totals(connection: Connection, kb_id: int) -> Totals:
    """What a KB held when it was counted last."""
    query = select(*(kbs.c[name] for name in _TOTALS)).where(kbs.c.id == kb_id)
    return Totals(*connection.execute(query).one())


def count_after_merge(connection: Connection, kb_id: int) -> Totals:
    """What a KB will hold when the staged records have the places of those with their keys.

    Only these are counted, however large the KB is.
    """

    def staged(table: Table) -> ColumnElement[bool]:
        return table.c.kb_id == kb_id + STAGED

    def replaced(table: Table) -> ColumnElement[bool]:
        new = table.alias("new")
        keys = select(new.c.key).where(new.c.kb_id == kb_id + STAGED)
        return (table.c.kb_id == kb_id) & table.c.key.in_(keys)

    before = stored_totals(connection, kb_id)
    return before + _count_where(connection, staged) - _count_where(connection, replaced)


def _count_where(connection: Connection, which: Callable[[Table], ColumnElement[bool]]) -> Totals:
    def number(table: Table, part: Table | None = None) -> int:
        query = select(func.count()).select_from(table).where(which(table))
        if part is not None:
            query = query.join(part, part.c[0] == table.c.id)
        return connection.scalar(query) or 0

    return count_entities(connection, which(entities)) + Totals(
        documents=number(documents), mentions=number(documents, mentions), mappings=number(mappings)
    )


def count_entities(connection: Connection, which: ColumnElement[bool]) -> Totals:
    """Count some entities with what belongs to them."""
    e = entities.c
    described = func.coalesce(func.sum(case((e.description != "", 1), else_=0)), 0)
    found, with_description = connection.execute(select(func.count(), described).where(which)).one()
    names = select(func.count()).join_from(entities, aliases, aliases.c.entity_id == e.id)
    return Totals(
        entities=found,
        with_description=int(with_description),
        aliases=connection.scalar(names.where(which)) or 0,
    )


def highest_id(connection: Connection, kb_id: int, table: Table = entities) -> int:
    """The highest id of a KB's entities, or its records of another table; 0 where it has none."""
    (first, stop), ids = id_range(kb_id), table.c.id
    return connection.scalar(select(func.max(ids)).where(ids >= first, ids < stop)) or 0


def find_problems(db: Database) -> list[str]:
    """All that is broken or unfinished and not at work; an empty list for a healthy store."""
    query = (
        select(
            kbs.c.name,
            kbs.c.adapter,
            kbs.c.removing,
            kbs.c.revision,
            ingests.c.read,
            ingests.c.started_at,
        )
        .join_from(kbs, ingests, ingests.c.kb_id == kbs.c.id, isouter=True)
        .order_by(kbs.c.id)
    )
    found: list[str] = []
    try:
        found += db.problems()
        for name, adapter, removing, revision, read, started_at in db.rows(query):
            again = "run it again"
            if adapter == IN_MEMORY:
                again = "run again what made it, such as kglink promote"
            if removing:
                text = f"KB {name!r}: its removal stopped half-way; run kglink kbs remove again"
            elif read is not None:
                what = f"an update of {started_at} stopped after {read:,} records"
                text = f"KB {name!r}: {what}; to go on, {again}"
            elif not revision:
                text = f"KB {name!r}: its first update stopped; {again}"
            else:
                continue
            with db.exclusive(name) as idle:
                if idle:
                    found.append(text)
    except StoreError as error:
        found.append(str(error))
    return found
