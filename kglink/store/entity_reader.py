"""Reads entities and their names, a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.engine import Connection

from kglink.records import Alias, Entity, EntityId
from kglink.store.database import Database
from kglink.store.kb_reader import kb_id, kb_ids
from kglink.store.pages import KeyRange, is_storable, key_ranges
from kglink.store.schema import aliases, entities, id_range, parents, xrefs
from kglink.store.values import StoredAlias

PAGE = 2000
LOOKUP_PAGE = 500


def read_entities(db: Database, kb: str) -> Iterator[Entity]:
    """All entities of a KB in the order of their keys."""
    number = kb_id(db, kb)
    for page in key_ranges(db, entities, number, PAGE):
        with db.read() as connection:
            found = _entities_where(connection, number, page.holds(entities.c.key))
        yield from found.values()


def read_named_entities(db: Database, ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
    """Entities by their public names; those that do not exist are left out."""
    numbers = kb_ids(db)
    wanted: dict[str, dict[str, None]] = defaultdict(dict)
    for name in ids:
        if name.kb in numbers and is_storable(name.key):
            wanted[name.kb][name.key] = None
    found: dict[EntityId, Entity] = {}
    for kb, keys in wanted.items():
        remaining = iter(keys)
        while chunk := list(islice(remaining, LOOKUP_PAGE)):
            with db.read() as connection:
                page = _entities_where(connection, numbers[kb], entities.c.key.in_(chunk))
            found.update((EntityId(kb, key), entity) for key, entity in page.items())
    return found


def read_aliases(db: Database, kb: str) -> Iterator[StoredAlias]:
    """All names of a KB in the order of their entities' keys, each entity's title first."""
    number = kb_id(db, kb)
    a = aliases.c
    query = (
        select(entities.c.key, a.surface, a.folded, a.kind, a.count)
        .join_from(entities, aliases, a.entity_id == entities.c.id)
        .where(entities.c.kb_id == number)
        .order_by(entities.c.key, a.position)
    )
    for page in key_ranges(db, entities, number, PAGE):
        for row in db.rows(query.where(page.holds(entities.c.key))):
            yield StoredAlias(*row)


def read_shared_names(db: Database, left: str, right: str) -> Iterator[tuple[str, str, str]]:
    """All (left key, right key, folded name) of two KBs' entities with a name in common."""
    left_id, right_id = kb_id(db, left), kb_id(db, right)
    for page in key_ranges(db, entities, left_id, PAGE):
        for row in db.rows(_shared_names(left_id, right_id, page)):
            yield row[0], row[1], row[2]


def _shared_names(left_id: int, right_id: int, page: KeyRange) -> Select[Any]:
    left_names, right_names = aliases.alias("left_names"), aliases.alias("right_names")
    others = entities.alias("right_entities")
    first, stop = id_range(right_id)
    return (
        select(entities.c.key, others.c.key, left_names.c.folded)
        .distinct()
        .join_from(entities, left_names, left_names.c.entity_id == entities.c.id)
        .join(right_names, right_names.c.folded == left_names.c.folded)
        .join(others, others.c.id == right_names.c.entity_id)
        .where(
            entities.c.kb_id == left_id,
            page.holds(entities.c.key),
            left_names.c.folded != "",
            right_names.c.entity_id >= first,
            right_names.c.entity_id < stop,
        )
        .order_by(entities.c.key, others.c.key, left_names.c.folded)
    )


def _entities_where(
    connection: Connection, number: int, where: ColumnElement[bool]
) -> dict[str, Entity]:
    """The entities of a KB that ``where`` chooses, by key and in the order of keys."""
    e = entities.c
    mine = (e.kb_id == number) & where
    names: dict[int, list[Alias]] = defaultdict(list)
    a = aliases.c
    query = select(a.entity_id, a.surface, a.kind, a.count)
    query = query.join_from(aliases, entities, e.id == a.entity_id).where(mine)
    for owner, *alias in connection.execute(query.order_by(a.entity_id, a.position)):
        names[owner].append(Alias(*alias))
    refs: dict[int, list[str]] = defaultdict(list)
    x = xrefs.c
    refs_query = select(x.entity_id, x.xref)
    refs_query = refs_query.join_from(xrefs, entities, e.id == x.entity_id).where(mine)
    for owner, xref in connection.execute(refs_query.order_by(x.entity_id, x.position)):
        refs[owner].append(xref)
    broader = _parents_where(connection, number, mine)
    columns = (e.key, e.title, e.description, e.type, e.url, e.popularity, e.language)
    rows = connection.execute(select(e.id, *columns).where(mine).order_by(e.key))
    found: dict[str, Entity] = {}
    for owner, key, title, description, kind, url, popularity, language in rows:
        found[key] = Entity(
            key, title, description, kind, url, popularity, language,
            tuple(names[owner]), tuple(refs[owner]), tuple(broader.get(owner, ())),
        )  # fmt: skip
    return found


def _parents_where(
    connection: Connection, number: int, mine: ColumnElement[bool]
) -> dict[int, list[str]]:
    """The parents of the entities that ``mine`` chooses; most KBs have none at all."""
    p = parents.c
    first, stop = id_range(number)
    of_kb = select(p.entity_id).where(p.entity_id >= first, p.entity_id < stop).limit(1)
    if connection.scalar(of_kb) is None:
        return {}
    query = select(p.entity_id, p.key)
    query = query.join_from(parents, entities, entities.c.id == p.entity_id).where(mine)
    found: dict[int, list[str]] = defaultdict(list)
    for owner, key in connection.execute(query.order_by(p.entity_id, p.position)):
        found[owner].append(key)
    return found
