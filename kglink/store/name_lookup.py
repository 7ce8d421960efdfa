"""Which entities of a KB bear given names: half of a join that is made elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from sqlalchemy import func, select

from kglink.store.database import Database
from kglink.store.kb_reader import kb_id
from kglink.store.schema import aliases, entities, id_range

LOOKUP_PAGE = 500
TITLE_PAGE = 20_000

a = aliases.c


class Bearer(NamedTuple):
    """An entity that bears a name, and how it is written there."""

    folded: str
    key: str
    surface: str
    kind: str


def count_bearers(db: Database, kb: str, names: Iterable[str]) -> dict[str, int]:
    """How many names of a KB fold to each of ``names``; those with none are left out."""
    first, stop = id_range(kb_id(db, kb))
    counts: dict[str, int] = {}
    for page in _pages(names):
        query = select(a.folded, func.count()).where(
            a.folded.in_(page), a.entity_id >= first, a.entity_id < stop
        )
        counts.update((name, count) for name, count in db.rows(query.group_by(a.folded)))
    return counts


def read_bearers(db: Database, kb: str, names: Iterable[str]) -> Iterator[Bearer]:
    """Every name of a KB that folds to one of ``names``, in no special order."""
    first, stop = id_range(kb_id(db, kb))
    for page in _pages(names):
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


def _pages(names: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(dict.fromkeys(names))
    while page := list(islice(remaining, LOOKUP_PAGE)):
        yield page
