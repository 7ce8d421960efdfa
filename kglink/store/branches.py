"""The entities of a KB that are of some types, and inside or outside of some branches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import select
from sqlalchemy.engine import Connection

from kglink.arrays import IntArray
from kglink.errors import UsageError
from kglink.files.tables import places_in
from kglink.records import EntityId
from kglink.store.database import pages
from kglink.store.entity_reader import existing
from kglink.store.kbs import kb_id
from kglink.store.schema import entities, id_range, parents

_PAGE = 20_000


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
    for page in pages(connection, query, _PAGE, e.key):
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
    query = select(below.c.id).execution_options(yield_per=_PAGE)
    return np.sort(np.fromiter(connection.scalars(query), np.int64))
