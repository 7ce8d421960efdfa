"""Finds the entities that the golds of a KB's documents name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    tuple_,
)
from sqlalchemy.engine import Connection

from kglink.records import EntityId
from kglink.store.code_lookup import CodeLookup
from kglink.store.database import Database, chunks
from kglink.store.entity_reader import at_addresses, existing
from kglink.store.kbs import entity_exists, kb_id, kb_ids
from kglink.store.prepared import folded_name
from kglink.store.schema import aliases, documents, entities, golds, id_range
from kglink.store.values import Resolve
from kglink.text.codes import code_of

PAGE = 1000
TITLES_PAGE = 250
#: How many golds that were not found are looked at, to name a few that differ.
_LOOKED_AT, _SHOWN = 20, 3
_KINDS = ("title", "redirect")

_delete_open = delete(golds).where(
    golds.c.document_id == bindparam("document"),
    golds.c.mention == bindparam("mention_"),
    golds.c.position == bindparam("position_"),
    golds.c.kb == literal_column("''"),
)
_delete_answers = delete(golds).where(
    golds.c.document_id == bindparam("document"),
    golds.c.mention == bindparam("mention_"),
    golds.c.position == bindparam("position_"),
    golds.c.kb != literal_column("''"),
)
_insert_golds = insert(golds)


class _Open(NamedTuple):
    """A gold whose entity was not found yet."""

    document: int
    mention: int
    position: int
    text: str


_Found = dict[_Open, list[EntityId]]


def resolve_golds(
    db: Database,
    kb_id: int,
    links_to: Sequence[str],
    resolve: Resolve,
    transaction: Callable[[], AbstractContextManager[Connection]],
) -> None:
    """Name the entities of all open golds of a KB that some KB answers to.

    By ``key``, ``kb:key`` means that KB where there is one of that name. Anything else is a key,
    colons and all, and means every entity of that key in the KBs ``links_to``; or the web address
    of an entity of them. By ``xref`` a gold
    is a code, and means the entities of the KBs ``links_to`` that `CodeLookup` finds for it.
    By ``title`` it is the title of an entity of these KBs, or a redirect to one.

    Each page of golds is resolved in a ``transaction``, which may be the same one for all.
    """
    with transaction() as connection:
        numbers = kb_ids(connection, also=kb_id)
    targets = {name: numbers[name] for name in links_to if name in numbers}
    after = (-1, -1, -1)
    while True:
        with transaction() as connection:
            c = golds.c
            place = (c.document_id, c.mention, c.position)
            query = (
                select(*place, c.key)
                .where(_of_kb(kb_id), c.kb == "", tuple_(*place) > after)
                .order_by(*place)
                .limit(PAGE)
            )
            page = [_Open(*row) for row in connection.execute(query)]
            found = _found(connection, page, numbers, targets, resolve)
            db.bulk(connection, _delete_answers, [gold[:3] for gold in found])
            rows = [
                (*gold[:3], name.kb, name.key) for gold, names in found.items() for name in names
            ]
            db.bulk(connection, _insert_golds, rows)
            if resolve == "key":
                # Here the answers stand in the place of the golds that name them.
                answered = [gold[:3] for gold, names in found.items() if names]
                db.bulk(connection, _delete_open, answered)
        if len(page) < PAGE:
            return
        after = page[-1][:3]


def named_entities(
    connection: Connection, texts: Iterable[str], links_to: Sequence[str], resolve: Resolve
) -> dict[str, list[EntityId]]:
    """The entities that some golds in their source's words name, as `resolve_golds` has it."""
    numbers = kb_ids(connection)
    targets = {name: numbers[name] for name in links_to if name in numbers}
    found: dict[str, list[EntityId]] = {}
    for some in chunks(dict.fromkeys(texts), PAGE):
        page = [_Open(0, 0, at, text) for at, text in enumerate(some)]
        meant = _found(connection, page, numbers, targets, resolve)
        found |= {gold.text: names for gold, names in meant.items()}
    return found


def _found(
    connection: Connection,
    page: Sequence[_Open],
    numbers: dict[str, int],
    targets: Mapping[str, int],
    resolve: Resolve,
) -> _Found:
    match resolve:
        case "key":
            wanted = {gold: candidates(gold.text, numbers.keys(), list(targets)) for gold in page}
            names = {name for found in wanted.values() for name in found}
            exist = existing(connection, names, numbers)
            found = {
                gold: [name for name in names if name in exist] for gold, names in wanted.items()
            }
            addresses = {
                gold.text for gold, some in found.items() if not some and "://" in gold.text
            }
            at = at_addresses(connection, sorted(addresses)) if addresses else {}
            for gold in found:
                found[gold] += [one for one in at.get(gold.text, ()) if one.kb in targets]
            return found
        case "xref":
            codes = {gold: code_of(gold.text) for gold in page}
            named = CodeLookup(connection, targets).entities_of(codes.values())
            return {gold: list(named.get(code, ())) for gold, code in codes.items()}
        case "title":
            asked = {gold: asked_title(gold.text, numbers) for gold in page}
            titled = titled_entities(connection, asked.values(), numbers, targets)
            return {gold: titled[one] for gold, one in asked.items()}


def candidates(text: str, known: Collection[str], links_to: Sequence[str]) -> list[EntityId]:
    """The entities that a gold may name, ``known`` being the names of all KBs."""
    named = EntityId.parse(text)
    if named.kb in known:
        return [named]
    return [EntityId(kb, text) for kb in links_to]


def count_unresolved(connection: Connection, kb_id: int) -> int:
    """How many golds of a KB's documents name no entity that exists."""
    return connection.scalar(select(func.count()).where(*_unresolved(kb_id))) or 0


def count_found(connection: Connection, kb_id: int, links_to: Sequence[str]) -> dict[str, int]:
    """How many golds of a KB's documents were found in each of the KBs ``links_to``."""
    c = golds.c
    place = (c.kb, c.document_id, c.mention, c.position)
    found = select(*place).distinct().where(_of_kb(kb_id), c.kb.in_(links_to)).subquery()
    query = select(found.c.kb, func.count()).group_by(found.c.kb)
    counts: dict[str, int] = {row[0]: row[1] for row in connection.execute(query)}
    return {kb: counts.get(kb, 0) for kb in links_to}


def count_golds(connection: Connection, kb_id: int) -> int:
    """How many golds the documents of a KB have."""
    c = golds.c
    places = select(c.document_id, c.mention, c.position).distinct().where(_of_kb(kb_id))
    return connection.scalar(select(func.count()).select_from(places.subquery())) or 0


def count_gone(connection: Connection, kb: str) -> int:
    """How many golds are of entities that this KB had and has no longer."""
    gone = select(func.count()).where(golds.c.kb == kb, ~gold_exists())
    return connection.scalar(gone) or 0


def count_annotated(connection: Connection, docs: Sequence[str] = ()) -> dict[str, int]:
    """How many mentions mean an entity of each KB, in some KBs' documents (none named: in all).

    The split test is left out: nothing is learnt from it.
    """
    numbers = [kb_id(connection, name) for name in docs] or list(kb_ids(connection).values())
    g, d = golds.c, documents.c
    meant = (
        select(g.document_id, g.mention, g.kb)
        .distinct()
        .join_from(golds, documents, d.id == g.document_id)
        .where(d.kb_id.in_(numbers), d.split != "test", gold_exists())
        .subquery()
    )
    query = select(meant.c.kb, func.count()).group_by(meant.c.kb)
    return {str(kb): int(count) for kb, count in connection.execute(query)}


def first_unresolved(connection: Connection, kb_id: int) -> tuple[str, ...]:
    """A few of them, as their source or `EntityId` writes them, in the order of the documents."""
    c = golds.c
    query = select(c.kb, c.key).where(*_unresolved(kb_id))
    place = (c.document_id, c.mention, c.position)
    rows = connection.execute(query.order_by(*place).limit(_LOOKED_AT))
    texts = dict.fromkeys(f"{row.kb}:{row.key}" if row.kb else row.key for row in rows)
    return tuple(texts)[:_SHOWN]


def _unresolved(kb_id: int) -> tuple[ColumnElement[bool], ...]:
    """The golds of a KB's documents that name no entity that exists."""
    return _of_kb(kb_id), ~gold_exists(), ~_is_answered()


def _is_answered() -> ColumnElement[bool]:
    """Whether a gold as the source has it has entities beside it."""
    beside = golds.alias("beside")
    same = [beside.c[name] == golds.c[name] for name in ("document_id", "mention", "position")]
    return (golds.c.kb == "") & exists().where(*same, beside.c.kb != "")


def gold_exists() -> ColumnElement[bool]:
    """Whether the entity of a row of ``golds`` is there."""
    return entity_exists(golds.c.kb, golds.c.key)


def _of_kb(kb_id: int) -> ColumnElement[bool]:
    first, stop = id_range(kb_id)
    owner = golds.c.document_id
    visible = exists().where(documents.c.id == owner, documents.c.kb_id == kb_id)
    return (owner >= first) & (owner < stop) & visible


# ------------------------------------------------------------------------------- by title
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
    for page in chunks(sorted(by_fold), TITLES_PAGE):
        for folded, surface, kind, number, key in connection.execute(
            query.where(a.folded.in_(page))
        ):
            if surface in by_fold[folded]:
                found[surface, names[number], kind].append(key)
    return found
