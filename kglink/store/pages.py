"""Reading a page at a time.

Each page is a transaction of its own and sees one state of the store. Between pages nothing is
held open: a reader that is left half-way blocks nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Table, select

from kglink.store.database import Database


class KeyRange(NamedTuple):
    """All keys from ``first`` to ``last``, both included."""

    first: str
    last: str

    def holds(self, column: Column[Any]) -> ColumnElement[bool]:
        """Whether a key is in the range."""
        return (column >= self.first) & (column <= self.last)


def key_ranges(
    db: Database, table: Table, kb_id: int, size: int, *where: ColumnElement[bool]
) -> Iterator[KeyRange]:
    """Cut the rows of a KB that ``where`` chooses into pages, in the order of their keys."""
    key = table.c.key
    query = select(key).where(table.c.kb_id == kb_id, *where).order_by(key).limit(size)
    page = db.rows(query)
    while page:
        yield KeyRange(page[0][0], page[-1][0])
        page = db.rows(query.where(key > page[-1][0])) if len(page) == size else []


def is_storable(text: str) -> bool:
    """Whether a database text can hold ``text``: what it cannot hold is not in the store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
