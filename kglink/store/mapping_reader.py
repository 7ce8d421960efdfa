"""Reads mappings between codes, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import select

from kglink.records import CodeMapping
from kglink.store.database import Database
from kglink.store.kb_reader import kb_id
from kglink.store.pages import key_ranges
from kglink.store.schema import mappings

PAGE = 2000


def read_mappings(db: Database, kb: str) -> Iterator[CodeMapping]:
    """All mappings of a KB in the order of their codes."""
    number = kb_id(db, kb)
    m = mappings.c
    query = select(m.subject, m.object, m.predicate, m.confidence, m.verdict)
    for page in key_ranges(db, mappings, number, PAGE):
        where = (m.kb_id == number) & page.holds(m.key)
        for row in db.rows(query.where(where).order_by(m.key)):
            yield CodeMapping(row[0], row[1], row[2], row[3], row[4] or None)
