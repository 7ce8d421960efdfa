"""Reads entities and their names, a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Select, Table, func, select
from sqlalchemy.engine import Connection

from kglink.records import Alias, Entity, EntityId
from kglink.store.database import Database, KeyRange, Row, chunks, key_ranges, keys_by_kb
from kglink.store.kbs import kb_id, kb_ids
from kglink.store.schema import aliases, entities, id_range, parents, xrefs
from kglink.store.values import StoredAlias

PAGE = 2000
LOOKUP_PAGE = 500
TITLE_PAGE = 20_000


a = aliases.c


class Bearer(NamedTuple):
    """An entity that bears a name, and how it is written there."""

    folded: str
    key: str
    surface: str
    kind: str


class FoldedEntity(NamedTuple):
    """An entity, and the folded form of each of its aliases, as `StoredAlias.folded` has it."""

    entity: Entity
    folded: tuple[str, ...]


def read_entities(db: Database, kb: str) -> Iterator[FoldedEntity]:
    """All entities of a KB in the order of their keys."""
    number = kb_id(db, kb)
    for page in key_ranges(db, entities, number, PAGE):
        with db.read() as connection:
            found = list(_entities_where(connection, number, page.holds(entities.c.key)))
        yield from found


def get_entities(db: Database, ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
    """Entities by their public names; those that do not exist are left out."""
    numbers = kb_ids(db)
    found: dict[EntityId, Entity] = {}
    for kb, keys in keys_by_kb(ids, numbers).items():
        for chunk in chunks(keys, LOOKUP_PAGE):
            chosen = entities.c.key.in_(chunk)
            with db.read() as connection:
                for entity, _ in _entities_where(connection, numbers[kb], chosen):
                    found[EntityId(kb, entity.key)] = entity
    return found


def read_aliases(db: Database, kb: str) -> Iterator[StoredAlias]:
    """All names of a KB in the order of their entities' keys, each entity's title first."""
    number = kb_id(db, kb)
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


def count_bearers(db: Database, kb: str, names: Iterable[str]) -> dict[str, int]:
    """How many names of a KB fold to each of ``names``; those with none are left out."""
    first, stop = id_range(kb_id(db, kb))
    counts: dict[str, int] = {}
    for page in chunks(dict.fromkeys(names), LOOKUP_PAGE):
        query = select(a.folded, func.count()).where(
            a.folded.in_(page), a.entity_id >= first, a.entity_id < stop
        )
        counts.update((name, count) for name, count in db.rows(query.group_by(a.folded)))
    return counts


def read_bearers(db: Database, kb: str, names: Iterable[str]) -> Iterator[Bearer]:
    """Every name of a KB that folds to one of ``names``, in no special order."""
    first, stop = id_range(kb_id(db, kb))
    for page in chunks(dict.fromkeys(names), LOOKUP_PAGE):
        query = (
            select(a.folded, entities.c.key, a.surface, a.kind)
            .join_from(aliases, entities, entities.c.id == a.entity_id)
            .where(a.folded.in_(page), a.entity_id >= first, a.entity_id < stop)
        )
        for row in db.rows(query):
            yield Bearer(*row)


def read_bracketed_titles(db: Database, kb: str) -> Iterator[tuple[str, str]]:
    """Key and title of every entity whose title ends in a bracket."""
    first, stop = id_range(kb_id(db, kb))
    query = (
        select(a.entity_id, entities.c.key, a.surface)
        .join_from(aliases, entities, entities.c.id == a.entity_id)
        .where(a.position == 0, a.entity_id < stop, a.surface.endswith(")"))
        .order_by(a.entity_id)
        .limit(TITLE_PAGE)
    )
    after = first - 1
    while page := db.rows(query.where(a.entity_id > after)):
        for _, key, title in page:
            yield key, title
        after = page[-1][0]


def _entities_where(
    connection: Connection, number: int, where: ColumnElement[bool]
) -> Iterator[FoldedEntity]:
    """The entities of a KB that ``where`` chooses, in the order of their keys."""
    e = entities.c
    mine = (e.kb_id == number) & where

    def rows_of(part: Table, *columns: Column[Any]) -> dict[int, list[Row]]:
        owner, position = part.c.entity_id, part.c.position
        query = select(owner, *columns).join_from(part, entities, e.id == owner).where(mine)
        found: dict[int, list[Row]] = defaultdict(list)
        for row in connection.execute(query.order_by(owner, position)):
            found[row[0]].append(tuple(row[1:]))
        return found

    names = rows_of(aliases, a.surface, a.kind, a.count, a.folded)
    refs = rows_of(xrefs, xrefs.c.xref)
    broader = rows_of(parents, parents.c.key) if _has_parents(connection, number) else {}
    columns = (e.key, e.title, e.description, e.type, e.url, e.popularity, e.language)
    rows = connection.execute(select(e.id, *columns).where(mine).order_by(e.key))
    for owner, key, title, description, kind, url, popularity, language in rows:
        entity = Entity(
            key, title, description, kind, url, popularity, language,
            aliases=tuple(Alias(*name[:3]) for name in names[owner]),
            xrefs=tuple(xref for (xref,) in refs[owner]),
            parents=tuple(parent for (parent,) in broader.get(owner, ())),
        )  # fmt: skip
        yield FoldedEntity(entity, tuple(name[3] for name in names[owner]))


def _has_parents(connection: Connection, number: int) -> bool:
    """Whether any entity of a KB has parents; most KBs have none at all."""
    first, stop = id_range(number)
    owner = parents.c.entity_id
    of_kb = select(owner).where(owner >= first, owner < stop).limit(1)
    return connection.scalar(of_kb) is not None
