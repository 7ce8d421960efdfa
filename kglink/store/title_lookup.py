"""Finds the entities that a title names: by their own titles, else by their redirects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.engine import Connection

from kglink.records import EntityId
from kglink.store.content import folded_name
from kglink.store.schema import aliases, entities

LOOKUP_PAGE = 250
_KINDS = ("title", "redirect")


class Asked(NamedTuple):
    """A title, and the KB it is looked up in; all of them where that is empty."""

    kb: str
    title: str


def asked_title(text: str, known: Mapping[str, int]) -> Asked:
    """What a gold asks for: ``kb:title`` where there is a KB of that name, else a title."""
    named = EntityId.parse(text)
    return Asked(named.kb, named.key) if named.kb in known else Asked("", text)


def titled_entities(
    connection: Connection,
    asked: Iterable[Asked],
    known: Mapping[str, int],
    links_to: Iterable[str],
) -> dict[Asked, list[EntityId]]:
    """The entities of each title; in a KB where one has it as its own, redirects do not count.

    Titles are compared to the letter: ``Bill`` and ``bill`` are different pages.
    """
    wanted = list(dict.fromkeys(asked))
    names = {known[kb]: kb for kb in (*links_to, *(one.kb for one in wanted if one.kb))}
    by_kind = _by_kind(connection, {one.title for one in wanted}, names)
    order = list(names.values())
    found = {}
    for one in wanted:
        kbs = [one.kb] if one.kb else [kb for kb in order if kb in set(links_to)]
        found[one] = [
            EntityId(kb, key)
            for kb in kbs
            for key in next(filter(None, (by_kind[one.title, kb, kind] for kind in _KINDS)), [])
        ]
    return found


def _by_kind(
    connection: Connection, titles: Iterable[str], names: Mapping[int, str]
) -> Mapping[tuple[str, str, str], list[str]]:
    """The keys of entities by title, KB and kind of name."""
    by_fold: dict[str, set[str]] = defaultdict(set)
    for title in titles:
        if folded := folded_name(title):  # the index holds the folded form
            by_fold[folded].add(title)
    a, e = aliases.c, entities.c
    query = select(a.folded, a.surface, a.kind, e.kb_id, e.key)
    query = query.join_from(aliases, entities, e.id == a.entity_id)
    query = query.where(e.kb_id.in_(names), a.kind.in_(_KINDS)).order_by(e.key)
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    remaining = iter(sorted(by_fold))
    while page := list(islice(remaining, LOOKUP_PAGE)):
        for folded, surface, kind, number, key in connection.execute(
            query.where(a.folded.in_(page))
        ):
            if surface in by_fold[folded]:
                found[surface, names[number], kind].append(key)
    return found
