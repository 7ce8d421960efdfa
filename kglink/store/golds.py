"""Finds the entities that the golds of a KB's documents name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain

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
from kglink.store.database import Database, chunks, rows_in
from kglink.store.entity_reader import at_addresses, existing
from kglink.store.kbs import entity_exists, kb_id, kb_ids
from kglink.store.prepared import Prepared, folded_name
from kglink.store.schema import aliases, documents, entities, golds, id_range
from kglink.store.values import Resolve
from kglink.text.codes import code_of

PAGE = 1000
#: How many golds that were not found are looked at, to name a few that differ.
_LOOKED_AT, _SHOWN = 20, 3
_KINDS = ("title", "redirect")

#: The place of a gold among all.
_PLACE = (golds.c.document_id, golds.c.mention, golds.c.position)
_insert_golds = insert(golds)
_delete_open, _delete_answers = (
    delete(golds).where(*(column == bindparam(f"{column.name}_") for column in _PLACE), which)
    for which in (golds.c.kb == literal_column("''"), golds.c.kb != literal_column("''"))
)


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
    of an entity of them. By ``xref`` a gold is a code, and means the entities of these KBs that
    `CodeLookup` finds for it. By ``title`` it is the title of one of them, or a redirect to it.

    Each page of golds is resolved in a ``transaction``, which may be the same one for all.
    """
    with transaction() as connection:
        numbers = kb_ids(connection, also=kb_id)
    targets = {name: numbers[name] for name in links_to if name in numbers}
    after = (-1, -1, -1)
    query = select(*_PLACE, golds.c.key).where(_of_kb(kb_id), golds.c.kb == "")
    query = query.order_by(*_PLACE).limit(PAGE)
    while True:
        with transaction() as connection:
            rows = connection.execute(query.where(tuple_(*_PLACE) > after))
            page = {(row[0], row[1], row[2]): row[3] for row in rows}
            found = _found(connection, set(page.values()), numbers, targets, resolve)
            db.bulk(connection, _delete_answers, list(page))
            answers = [(*at, *name) for at, text in page.items() for name in found[text]]
            db.bulk(connection, _insert_golds, answers)
            if resolve == "key":
                # Here the answers stand in the place of the golds that name them.
                answered = [at for at, text in page.items() if found[text]]
                db.bulk(connection, _delete_open, answered)
        if len(page) < PAGE:
            return
        after = max(page)


def named_entities(
    connection: Connection, texts: Iterable[str], links_to: Sequence[str], resolve: Resolve
) -> dict[str, list[EntityId]]:
    """The entities that some golds in their source's words name, as `resolve_golds` has it."""
    numbers = kb_ids(connection)
    targets = {name: numbers[name] for name in links_to if name in numbers}
    found: dict[str, list[EntityId]] = {}
    for some in chunks(dict.fromkeys(texts), PAGE):
        found |= _found(connection, some, numbers, targets, resolve)
    return found


def outdated_golds(
    connection: Connection, links_to: Sequence[str], records: Mapping[int, Prepared]
) -> set[int]:
    """Which documents, by their rows, name other entities by key than when they were read.

    Of what a key has found its source's words are not kept, so that only the source leads on.
    """
    rows = [row for id_, record in records.items() for row in record.parts(id_)[1]]
    found = named_entities(connection, (str(row[-1]) for row in rows), links_to, "key")
    named = {(*row[:3], *one) for row in rows for one in found[str(row[-1])]}
    query = select(*_PLACE, golds.c.kb, golds.c.key).where(gold_exists())
    known = {tuple(row) for row in rows_in(connection, query, golds.c.document_id, records)}
    return {row[0] for row in named ^ known}


def _found(
    connection: Connection,
    texts: Collection[str],
    numbers: Mapping[str, int],
    targets: Mapping[str, int],
    resolve: Resolve,
) -> dict[str, list[EntityId]]:
    """The entities that each gold names."""
    match resolve:
        case "key":
            named = {text: EntityId.parse(text) for text in texts}
            wanted = {
                text: [one] if one.kb in numbers else [EntityId(kb, text) for kb in targets]
                for text, one in named.items()
            }
            exist = existing(connection, chain.from_iterable(wanted.values()), numbers)
            found = {text: [one for one in names if one in exist] for text, names in wanted.items()}
            addresses = sorted(text for text in texts if not found[text] and "://" in text)
            at = at_addresses(connection, addresses) if addresses else {}
            for text, names in at.items():
                found[text] = [one for one in names if one.kb in targets]
            return found
        case "xref":
            codes = {text: code_of(text) for text in texts}
            coded = CodeLookup(connection, targets, numbers.values()).entities_of(codes.values())
            return {text: list(coded.get(code, ())) for text, code in codes.items()}
        case "title":
            return _titled(connection, texts, numbers, targets)


def count_unresolved(connection: Connection, kb_id: int) -> int:
    """How many golds of a KB's documents name no entity that exists."""
    return connection.scalar(select(func.count()).where(*_unresolved(kb_id))) or 0


def count_found(connection: Connection, kb_id: int, links_to: Sequence[str]) -> dict[str, int]:
    """How many golds of a KB's documents were found in each of the KBs ``links_to``."""
    kb = golds.c.kb
    found = select(kb, *_PLACE).distinct().where(_of_kb(kb_id), kb.in_(links_to)).subquery()
    query = select(found.c.kb, func.count()).group_by(found.c.kb)
    counts: dict[str, int] = {row[0]: row[1] for row in connection.execute(query)}
    return {kb: counts.get(kb, 0) for kb in links_to}


def count_golds(connection: Connection, kb_id: int) -> int:
    """How many golds the documents of a KB have."""
    places = select(*_PLACE).distinct().where(_of_kb(kb_id))
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
    rows = connection.execute(query.order_by(*_PLACE).limit(_LOOKED_AT))
    texts = dict.fromkeys(f"{row.kb}:{row.key}" if row.kb else row.key for row in rows)
    return tuple(texts)[:_SHOWN]


def _unresolved(kb_id: int) -> tuple[ColumnElement[bool], ...]:
    """The golds of a KB's documents that name no entity that exists."""
    beside = golds.alias("beside")  # the entities of a gold as the source has it
    same = [beside.c[column.name] == column for column in _PLACE]
    is_answered = (golds.c.kb == "") & exists().where(*same, beside.c.kb != "")
    return _of_kb(kb_id), ~gold_exists(), ~is_answered


def gold_exists() -> ColumnElement[bool]:
    """Whether the entity of a row of ``golds`` is there."""
    return entity_exists(golds.c.kb, golds.c.key)


def _of_kb(kb_id: int) -> ColumnElement[bool]:
    first, stop = id_range(kb_id)
    owner = golds.c.document_id
    visible = exists().where(documents.c.id == owner, documents.c.kb_id == kb_id)
    return (owner >= first) & (owner < stop) & visible


def _titled(
    connection: Connection,
    texts: Iterable[str],
    known: Mapping[str, int],
    links_to: Collection[str],
) -> dict[str, list[EntityId]]:
    """The entities of each title, ``kb:title`` where there is a KB of that name.

    In a KB where an entity has it as its own, redirects do not count. Titles are compared to the
    letter: ``Bill`` and ``bill`` are different pages.
    """
    asked = {text: EntityId.parse(text) for text in texts}
    asked = {text: one if one.kb in known else EntityId("", text) for text, one in asked.items()}
    names = {known[kb]: kb for kb in (*links_to, *(one.kb for one in asked.values() if one.kb))}
    by_fold: dict[str, set[str]] = defaultdict(set)
    for _, title in asked.values():
        if folded := folded_name(title):  # the index holds the folded form
            by_fold[folded].add(title)
    a, e = aliases.c, entities.c
    query = select(a.folded, a.surface, a.kind, e.kb_id, e.key)
    query = query.join_from(aliases, entities, e.id == a.entity_id)
    query = query.where(e.kb_id.in_(names), a.kind.in_(_KINDS)).order_by(e.key)
    keys: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for folded, surface, kind, number, key in rows_in(connection, query, a.folded, by_fold):
        if surface in by_fold[folded]:
            keys[surface, names[number], kind].append(key)
    return {
        text: [
            EntityId(kb, key)
            for kb in ([one.kb] if one.kb else links_to)
            for key in next(filter(None, (keys[one.key, kb, kind] for kind in _KINDS)), [])
        ]
        for text, one in asked.items()
    }
