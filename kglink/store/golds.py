"""Finds the entities that the golds of a KB's documents name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    tuple_,
)
from sqlalchemy.engine import Connection

from kglink.records import EntityId
from kglink.store.database import Database
from kglink.store.schema import entities, golds, id_range, kbs

PAGE = 1000

_delete_open = delete(golds).where(
    golds.c.document_id == bindparam("document"),
    golds.c.mention == bindparam("mention_"),
    golds.c.position == bindparam("position_"),
    golds.c.kb == literal_column("''"),
)
_insert_golds = insert(golds)


class _Open(NamedTuple):
    """A gold whose entity was not found yet."""

    document: int
    mention: int
    position: int
    text: str


def resolve_golds(db: Database, kb_id: int, links_to: Sequence[str]) -> None:
    """Name the entities of all open golds of a KB that some KB answers to.

    ``kb:key`` means that KB where there is one of that name. Anything else is a key, colons and
    all, and means every entity of that key in the KBs ``links_to``.
    """
    with db.read() as connection:
        numbers: dict[str, int] = {
            name: number for number, name in connection.execute(select(kbs.c.id, kbs.c.name))
        }
    targets = [name for name in links_to if name in numbers]
    for page in _open_golds(db, kb_id):
        wanted = {gold: candidates(gold.text, numbers.keys(), targets) for gold in page}
        with db.write() as connection:
            names = {name for found in wanted.values() for name in found}
            exist = _existing(connection, names, numbers)
            _settle(db, connection, wanted, exist)


def candidates(text: str, known: Collection[str], links_to: Sequence[str]) -> list[EntityId]:
    """The entities that a gold may name, ``known`` being the names of all KBs."""
    named = EntityId.parse(text)
    if named.kb in known:
        return [named]
    return [EntityId(kb, text) for kb in links_to]


def count_unresolved(connection: Connection, kb_id: int) -> int:
    """How many golds of a KB's documents name no entity that exists."""
    missing = select(func.count()).where(_of_kb(kb_id), ~gold_exists())
    return connection.scalar(missing) or 0


def gold_exists() -> ColumnElement[bool]:
    """Whether the entity of a row of ``golds`` is there."""
    return (
        select(entities.c.id)
        .join(kbs, kbs.c.id == entities.c.kb_id)
        .where(kbs.c.name == golds.c.kb, kbs.c.removing == 0, entities.c.key == golds.c.key)
        .exists()
    )


def _of_kb(kb_id: int) -> ColumnElement[bool]:
    first, stop = id_range(kb_id)
    return (golds.c.document_id >= first) & (golds.c.document_id < stop)


def _open_golds(db: Database, kb_id: int) -> Iterator[list[_Open]]:
    c = golds.c
    place = tuple_(c.document_id, c.mention, c.position)
    query = (
        select(c.document_id, c.mention, c.position, c.key)
        .where(_of_kb(kb_id), c.kb == "")
        .order_by(c.document_id, c.mention, c.position)
        .limit(PAGE)
    )
    after: tuple[int, int, int] | None = None
    while True:
        rows = db.rows(query if after is None else query.where(place > after))
        page = [_Open(*row) for row in rows]
        if page:
            yield page
        if len(page) < PAGE:
            return
        after = page[-1][:3]


def _existing(
    connection: Connection, names: set[EntityId], numbers: dict[str, int]
) -> set[EntityId]:
    exist: set[EntityId] = set()
    for kb in {name.kb for name in names}:
        keys = sorted(name.key for name in names if name.kb == kb)
        query = select(entities.c.key).where(
            entities.c.kb_id == numbers[kb], entities.c.key.in_(keys)
        )
        exist.update(EntityId(kb, key) for key in connection.scalars(query))
    return exist


def _settle(
    db: Database,
    connection: Connection,
    wanted: dict[_Open, list[EntityId]],
    exist: set[EntityId],
) -> None:
    found = {gold: [name for name in names if name in exist] for gold, names in wanted.items()}
    db.bulk(connection, _delete_open, [gold[:3] for gold, names in found.items() if names])
    rows = [(*gold[:3], name.kb, name.key) for gold, names in found.items() for name in names]
    db.bulk(connection, _insert_golds, rows)
