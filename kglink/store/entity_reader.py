"""Reads entities and their names, a page at a time: all, some, or those of types and branches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Column, ColumnElement, Select, Table, exists, func, literal_column, select
from sqlalchemy.engine import Connection

from kglink.arrays import IntArray
from kglink.errors import UsageError
from kglink.files.tables import places_in
from kglink.records import CONSIDER, REPLACED_BY, Alias, Entity, EntityId
from kglink.store.database import Row, chunks, key_ranges, keys_by_kb, pages, rows_in
from kglink.store.kbs import kb_id, kb_ids
from kglink.store.prepared import folded_name
from kglink.store.schema import (
    aliases,
    entities,
    id_range,
    mappings,
    parents,
    removed_entities,
    removed_kbs,
    xrefs,
)
from kglink.store.values import StoredAlias
from kglink.text.codes import code_of

PAGE = 2000
LOOKUP_PAGE = 500
ADDRESSES_PAGE = 10_000
LARGE_PAGE = 20_000  # of rows with few columns
#: What somebody has typed is looked up from this length on, and no more of its names are read.
_LEAST_BYTES, _MOST_NAMES = 3, 2000

a = aliases.c
#: The columns of a `StoredAlias`.
_STORED = (entities.c.key, a.surface, a.folded, a.kind, a.count)


class FoldedEntity(NamedTuple):
    """An entity, and the folded form of each of its aliases, as `StoredAlias.folded` has it."""

    entity: Entity
    folded: tuple[str, ...]


def read_entities(connection: Connection, kb: str) -> Iterator[FoldedEntity]:
    """All entities of a KB in the order of their keys."""
    number = kb_id(connection, kb)
    for page in key_ranges(connection, entities, number, PAGE):
        yield from _entities_where(connection, number, page)


class Changes(NamedTuple):
    """What is other in a KB than it was at some earlier revision."""

    entities: list[FoldedEntity]
    """Those that were added or changed, in the order of their keys."""
    removed: list[str]
    """The keys of those that were taken away, in order."""


def count_changes(connection: Connection, kb: str, last_id: int, revision: int) -> int | None:
    """How many entities changed since ``revision``, whose highest id was ``last_id``.

    None: the whole KB was removed since, and added anew.
    """
    number = kb_id(connection, kb)
    anew = exists().where(removed_kbs.c.name == kb, removed_kbs.c.revision >= revision)
    if connection.scalar(select(anew)):
        return None
    new = connection.scalar(select(func.count()).where(*_newer(number, last_id))) or 0
    gone = connection.scalar(select(func.count()).where(*_removed_since(number, revision))) or 0
    return new + gone


def read_changes(connection: Connection, kb: str, last_id: int, revision: int) -> Changes:
    """The entities that were added, changed or removed since that revision and its highest id."""
    number = kb_id(connection, kb)
    key = entities.c.key
    keys = connection.scalars(select(key).where(*_newer(number, last_id)).order_by(key)).all()
    changed = [
        entity
        for page in chunks(keys, LOOKUP_PAGE)
        for entity in _entities_where(connection, number, key.in_(page))
    ]
    gone = select(removed_entities.c.key).where(*_removed_since(number, revision))
    removed = connection.scalars(gone.order_by(removed_entities.c.key)).all()
    return Changes(changed, list(removed))


def _newer(number: int, last_id: int) -> tuple[ColumnElement[bool], ...]:
    first, stop = id_range(number)
    ids = entities.c.id
    # The plus keeps SQLite to the range of ids: its other index holds the whole KB.
    mine = literal_column("+entities.kb_id") == number
    return ids > max(last_id, first - 1), ids < stop, mine


def _removed_since(number: int, revision: int) -> tuple[ColumnElement[bool], ...]:
    return removed_entities.c.kb_id == number, removed_entities.c.revision > revision


def get_entities(connection: Connection, ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
    """Entities by their public names; those that do not exist are left out."""
    numbers = kb_ids(connection)
    found: dict[EntityId, Entity] = {}
    for kb, keys in keys_by_kb(ids, numbers).items():
        for chunk in chunks(keys, LOOKUP_PAGE):
            for entity, _ in _entities_where(connection, numbers[kb], entities.c.key.in_(chunk)):
                found[EntityId(kb, entity.key)] = entity
    return found


def existing(
    connection: Connection, ids: Iterable[EntityId], numbers: Mapping[str, int] | None = None
) -> set[EntityId]:
    """The ids that exist as entities, in all KBs or in those of ``numbers``."""
    numbers = kb_ids(connection) if numbers is None else numbers
    e = entities.c
    return {
        EntityId(kb, row.key)
        for kb, keys in keys_by_kb(ids, numbers).items()
        for row in rows_in(connection, select(e.key).where(e.kb_id == numbers[kb]), e.key, keys)
    }


def at_addresses(connection: Connection, urls: Iterable[str]) -> dict[str, list[EntityId]]:
    """The entities that have some web addresses; reads all entities once for each page of them."""
    names = {number: kb for kb, number in kb_ids(connection).items()}
    e = entities.c
    found: dict[str, list[EntityId]] = defaultdict(list)
    query = select(e.kb_id, e.key, e.url)
    for number, key, url in rows_in(connection, query, e.url, urls, ADDRESSES_PAGE):
        if number in names:
            found[url].append(EntityId(names[number], key))
    return dict(found)


def read_children(connection: Connection, entity: EntityId) -> list[tuple[EntityId, str]]:
    """The entities of which one is a parent, with their titles, by key."""
    number = kb_id(connection, entity.kb)
    first, stop = id_range(number)
    e, owner = entities.c, parents.c.entity_id
    query = select(e.key, e.title).join_from(parents, entities, e.id == owner)
    query = query.where(
        owner >= first, owner < stop, parents.c.key == entity.key, e.kb_id == number
    )
    rows = connection.execute(query.order_by(e.key))
    return [(EntityId(entity.kb, key), title) for key, title in rows]


def read_aliases(connection: Connection, kb: str) -> Iterator[StoredAlias]:
    """All names of a KB in the order of their entities' keys, each entity's title first."""
    number = kb_id(connection, kb)
    query = (
        select(*_STORED)
        .join_from(entities, aliases, a.entity_id == entities.c.id)
        .where(entities.c.kb_id == number)
        .order_by(entities.c.key, a.position)
    )
    for page in key_ranges(connection, entities, number, PAGE):
        for row in connection.execute(query.where(page)):
            yield StoredAlias(*row)


def count_bearers(connection: Connection, kb: str, names: Iterable[str]) -> dict[str, int]:
    """How many names of a KB fold to each of ``names``; those with none are left out."""
    query = _bearing(kb_id(connection, kb), a.folded, func.count()).group_by(a.folded)
    return {row[0]: row[1] for row in rows_in(connection, query, a.folded, names)}


def read_bearers(connection: Connection, kb: str, names: Iterable[str]) -> Iterator[StoredAlias]:
    """Every name of a KB that folds to one of ``names``, in no special order."""
    query = _bearing(kb_id(connection, kb), *_STORED)
    for row in rows_in(connection, query, a.folded, names):
        yield StoredAlias(*row)


def named_like_this(
    connection: Connection, beginning: str, kbs: Iterable[str] = (), *, most: int = 20
) -> list[EntityId]:
    """The entities with a name that begins so, for somebody who types; of these KBs, or all.

    The name itself first, then by popularity, titles before other names, and short names before
    long ones. Less than a syllable is the beginning of nothing.
    """
    first = folded_name(beginning)
    if len(first.encode()) < _LEAST_BYTES:
        return []
    numbers, e = kb_ids(connection), entities.c
    found = []
    for kb in kbs or numbers:
        query = _bearing(numbers[kb], a.folded, a.kind, e.key, e.popularity)
        query = query.where(a.folded >= first, a.folded < first + chr(0x10FFFF))
        for folded, kind, key, popularity in connection.execute(
            query.order_by(a.folded, a.entity_id).limit(_MOST_NAMES)
        ):
            rank = (folded != first, -popularity, kind != "title", len(folded), folded)
            found.append((rank, EntityId(kb, key)))
    return list(dict.fromkeys(one for _, one in sorted(found)))[:most]


def read_bracketed_titles(connection: Connection, kb: str) -> Iterator[tuple[str, str]]:
    """Key and title of every entity whose title ends in a bracket."""
    number = kb_id(connection, kb)
    query = _bearing(number, a.entity_id, entities.c.key, a.surface)
    query = query.where(a.position == 0, a.surface.endswith(")"))
    for page in pages(connection, query, LARGE_PAGE, a.entity_id):
        for _, key, title in page:
            yield key, title


def _bearing(number: int, *columns: Any) -> Select[Any]:
    """The names of a KB, with the entities that bear them."""
    first, stop = id_range(number)
    query = select(*columns).join_from(aliases, entities, entities.c.id == a.entity_id)
    return query.where(a.entity_id >= first, a.entity_id < stop, entities.c.kb_id == number)


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
    (first, stop), owner = id_range(number), parents.c.entity_id
    of_kb = select(owner).where(owner >= first, owner < stop).limit(1)
    # Most KBs have no parents at all.
    has_parents = connection.scalar(of_kb) is not None
    broader = rows_of(parents, parents.c.key) if has_parents else {}
    columns = (e.key, e.title, e.description, e.type, e.url, e.popularity, e.language)
    rows = connection.execute(select(e.id, *columns).where(mine).order_by(e.key))
    for id_, key, title, description, kind, url, popularity, language in rows:
        entity = Entity(
            key, title, description, kind, url, popularity, language,
            aliases=tuple(Alias(*name[:3]) for name in names[id_]),
            xrefs=tuple(xref for (xref,) in refs[id_]),
            parents=tuple(parent for (parent,) in broader.get(id_, ())),
        )  # fmt: skip
        yield FoldedEntity(entity, tuple(name[3] for name in names[id_]))


def removed_in(connection: Connection, gone: EntityId) -> int | None:
    """The revision of a KB that took an entity away; None where none did, or it came back."""
    c = removed_entities.c
    mine = c.kb_id == kb_id(connection, gone.kb), c.key == gone.key
    return connection.scalar(select(c.revision).where(*mine))


def read_successors(connection: Connection, gone: EntityId) -> list[tuple[str, str]]:
    """What took the place of a key: its replacements, what it was merged into or redirects to.

    Each by its key, with what the source says of the two.
    """
    number = kb_id(connection, gone.kb)
    code, m = code_of(gone.key), mappings.c
    replaced = select(m.object).where(m.kb_id == number, m.subject_code == code).order_by(m.object)
    in_kb = select(entities.c.key).where(entities.c.kb_id == number).order_by(entities.c.key)
    merged = in_kb.join_from(entities, xrefs, entities.c.id == xrefs.c.entity_id)
    named = in_kb.join_from(entities, aliases, entities.c.id == aliases.c.entity_id)
    redirects = aliases.c.kind == "redirect", aliases.c.folded == folded_name(gone.key)
    asked: tuple[tuple[str, Select[str]], ...] = (
        ("replaced by", replaced.where(m.predicate == REPLACED_BY)),
        ("consider", replaced.where(m.predicate == CONSIDER)),
        ("merged into", merged.where(xrefs.c.code == code)),
        ("redirects to", named.where(*redirects)),
    )
    return [
        (key, how)
        for how, query in asked
        if code or how == "redirects to"
        for key in dict.fromkeys(connection.scalars(query))
    ]


# ------------------------------------------------------------------- by types and branches
class WantedEntities(NamedTuple):
    """Which entities of a KB are wanted; what is empty sets no limit.

    An entity is under another one that its parents, or theirs, lead to, and under itself.
    """

    types: tuple[str, ...] = ()
    under: tuple[str, ...] = ()
    """Keys: in one of these branches."""
    not_under: tuple[str, ...] = ()
    """Keys: in none of these branches."""


def read_types(connection: Connection, kb: str) -> list[str]:
    """The types of a KB's entities."""
    of_kb = entities.c.kb_id == kb_id(connection, kb)
    return list(connection.scalars(select(entities.c.type).distinct().where(of_kb)))


def read_wanted(connection: Connection, kb: str, wanted: WantedEntities) -> Iterator[str]:
    """The keys of the wanted entities, in their order."""
    number = kb_id(connection, kb)
    inside, outside = (
        _branches(connection, kb, number, keys) for keys in (wanted.under, wanted.not_under)
    )
    asked = {name.casefold() for name in wanted.types}
    e = entities.c
    query = select(e.key, e.id, e.type).where(e.kb_id == number)
    for page in pages(connection, query, LARGE_PAGE, e.key):
        ids = np.array([row[1] for row in page], dtype=np.int64)
        kept = ~places_in(outside, ids)[1]
        if wanted.under:
            kept &= places_in(inside, ids)[1]
        for (key, _, kind), keep in zip(page, kept.tolist(), strict=True):
            if keep and (not asked or kind.casefold() in asked):
                yield key


def _branches(connection: Connection, kb: str, number: int, keys: Sequence[str]) -> IntArray:
    """The numbers of some entities and of all below them, each once and in order."""
    if not keys:
        return np.empty(0, dtype=np.int64)
    ids = [EntityId(kb, key) for key in keys]
    found = existing(connection, ids, {kb: number})
    for id_ in ids:
        if id_ not in found:
            raise UsageError(
                f"there is no entity {id_} whose branch could be looked for",
                hint="`kglink search NAME` shows the ids of entities.",
            )
    e = entities.c
    top = select(e.id).where(e.kb_id == number, e.key.in_(keys))
    (first, stop), owner = id_range(number), parents.c.entity_id
    broader = entities.alias("broader")
    links = (
        select(broader.c.id.label("parent"), owner.label("child"))
        .join_from(parents, entities, e.id == owner)
        .join(broader, (broader.c.kb_id == number) & (broader.c.key == parents.c.key))
        .where(owner >= first, owner < stop, e.kb_id == number)
        .cte("links")
        .prefix_with("MATERIALIZED")
    )
    below = top.cte("below", recursive=True)
    # Each entity once: parents that lead in a circle do no harm.
    below = below.union(select(links.c.child).join(below, links.c.parent == below.c.id))
    query = select(below.c.id).execution_options(yield_per=LARGE_PAGE)
    return np.sort(np.fromiter(connection.scalars(query), np.int64))
