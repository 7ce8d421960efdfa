"""Reads documents with their mentions and golds, a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.engine import Connection

from kglink.records import Document, EntityId, Mention
from kglink.store.database import Database
from kglink.store.golds import gold_exists
from kglink.store.kb_reader import kb_id, kb_ids
from kglink.store.pages import key_ranges
from kglink.store.schema import GIVEN, NIL, documents, golds, mentions

PAGE = 64  # a document may hold megabytes


def read_documents(
    db: Database, kb: str | None = None, split: str | None = None
) -> Iterator[Document]:
    """The documents of one KB or of all, in the order of KBs and of the documents' ids."""
    numbers = list(kb_ids(db).values()) if kb is None else [kb_id(db, kb)]
    d = documents.c
    chosen = [] if split is None else [d.split == split]
    for number in numbers:
        for page in key_ranges(db, documents, number, PAGE, *chosen):
            where = [d.kb_id == number, page.holds(d.key), *chosen]
            query = select(d.id, d.key, d.text, d.title, d.split).where(*where).order_by(d.key)
            with db.read() as connection:
                found = _documents(connection, query)
            yield from found


def _documents(connection: Connection, query: Select[Any]) -> list[Document]:
    rows = connection.execute(query).all()
    found = _mentions(connection, [row.id for row in rows])
    return [Document(row.key, row.text, tuple(found[row.id]), row.title, row.split) for row in rows]


def _mentions(connection: Connection, ids: list[int]) -> dict[int, list[Mention]]:
    named = _golds(connection, ids)
    m = mentions.c
    query = select(mentions).where(m.document_id.in_(ids)).order_by(m.document_id, m.position)
    found: dict[int, list[Mention]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        gold = _gold(row["gold"], named.get((row["document_id"], row["position"])))
        found[row["document_id"]].append(
            Mention(row["start"], row["end"], row["surface"], gold, row["type"], row["quality"])
        )
    return found


def _golds(connection: Connection, ids: list[int]) -> dict[tuple[int, int], dict[EntityId, None]]:
    g = golds.c
    query = (
        select(g.document_id, g.mention, g.kb, g.key)
        .where(g.document_id.in_(ids), gold_exists())
        .order_by(g.document_id, g.mention, g.position, g.kb, g.key)
    )
    found: dict[tuple[int, int], dict[EntityId, None]] = defaultdict(dict)
    for document, mention, kb, key in connection.execute(query):
        found[document, mention][EntityId(kb, key)] = None
    return found


def _gold(state: int, named: dict[EntityId, None] | None) -> tuple[EntityId, ...] | None:
    if state == NIL:
        return ()
    # A gold whose entities are all gone, or never came, says nothing: it is no NIL.
    return tuple(named) if state == GIVEN and named else None
