"""The entities of a KB that are of some types, and inside or outside of some branches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import select
from sqlalchemy.engine import Connection

from kglink.errors import UsageError
from kglink.files.tables import places_in
from kglink.records import EntityId
from kglink.store.database import pages
from kglink.store.kbs import kb_id
from kglink.store.schema import entities, id_range, parents

IntArray = npt.NDArray[np.int64]
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
        _ids_of(connection, kb, number, keys) for keys in (wanted.under, wanted.not_under)
    )
    links = _parent_links(connection, number) if len(inside) or len(outside) else _NO_LINKS
    inside, outside = _with_all_below(inside, links), _with_all_below(outside, links)
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


class _Links(NamedTuple):
    """An entity and a parent of it, in order of the parents."""

    parents: IntArray
    children: IntArray


_NO_LINKS = _Links(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def _ids_of(connection: Connection, kb: str, number: int, keys: Sequence[str]) -> IntArray:
    """The numbers of entities by their keys."""
    ids = []
    for key in dict.fromkeys(keys):
        query = select(entities.c.id).where(entities.c.kb_id == number, entities.c.key == key)
        found = connection.scalar(query)
        if found is None:
            raise UsageError(
                f"there is no entity {EntityId(kb, key)} whose branch could be looked for",
                hint="`kglink search NAME` shows the ids of entities.",
            )
        ids.append(found)
    return np.array(ids, dtype=np.int64)


def _parent_links(connection: Connection, number: int) -> _Links:
    """All parents in a KB that the KB itself holds, as numbers: 16 bytes for each."""
    first, stop = id_range(number)
    broader = entities.alias("broader")
    owner = parents.c.entity_id
    query = (
        select(broader.c.id, owner)
        .join_from(parents, entities, entities.c.id == owner)
        .join(broader, (broader.c.kb_id == number) & (broader.c.key == parents.c.key))
        .where(owner >= first, owner < stop, entities.c.kb_id == number)
        .execution_options(yield_per=_PAGE)
    )
    parts = [
        np.array([tuple(row) for row in part], dtype=np.int64)
        for part in connection.execute(query).partitions()
    ]
    if not parts:
        return _NO_LINKS
    pairs = np.concatenate(parts)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return _Links(pairs[:, 0], pairs[:, 1])


def _with_all_below(roots: IntArray, links: _Links) -> IntArray:
    """Some entities and all below them, each once: parents that lead in a circle do no harm."""
    numbers = np.unique(np.concatenate([roots, links.children]))
    places = np.searchsorted(numbers, links.children)
    found = np.zeros(len(numbers), dtype=np.bool_)
    newest = np.searchsorted(numbers, roots)
    while len(newest):
        found[newest] = True
        first = np.searchsorted(links.parents, numbers[newest], side="left")
        counts = np.searchsorted(links.parents, numbers[newest], side="right") - first
        offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        children = places[np.repeat(first, counts) + offset]
        newest = np.unique(children[~found[children]])
    return numbers[found]
