"""Removes in small transactions: what an update no longer brings, or a whole KB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, or_, select, update

from kglink.errors import UnknownNameError
from kglink.store.database import Database
from kglink.store.mapping_verdicts import take_back_verdicts
from kglink.store.overlap_runs import forget_runs, touch
from kglink.store.schema import id_range, ingests, kbs, overlaps
from kglink.store.writers import DOCUMENTS, ENTITIES, MAPPINGS, Writer

BATCH = 2000


def stale_ids(db: Database, table: Table, kb_id: int, run: int) -> Iterator[list[int]]:
    """The rows of a KB that ``run`` has not seen, in batches that may be removed meanwhile."""
    yield from _ids(db, table, kb_id, table.c.run != run)


def find_kb(db: Database, name: str) -> int:
    """The internal id of a KB that may be half-way removed."""
    ids = {row[0]: row[1] for row in db.rows(select(kbs.c.name, kbs.c.id))}
    if name not in ids:
        raise UnknownNameError("KB", name, ids)
    return int(ids[name])


def remove_kb(db: Database, kb_id: int, name: str) -> None:
    """Remove a KB; what people judged of its overlaps is kept for the day it comes back."""
    mine = kbs.c.id == kb_id
    with db.write() as connection:
        # From here on it is no KB any more; a killed removal is finished by the next one.
        connection.execute(update(kbs).where(mine).values(removing=1))
        connection.execute(delete(ingests).where(ingests.c.kb_id == kb_id))
    writers: tuple[Writer[Any], ...] = (DOCUMENTS, ENTITIES, MAPPINGS)
    for writer in writers:
        for ids in _ids(db, writer.table, kb_id):
            with db.write() as connection:
                writer.remove(db, connection, ids)
    with db.write() as connection:
        touch(connection)
        forget_runs(connection, name)
        take_back_verdicts(connection, name)
        touches = or_(overlaps.c.left_kb == name, overlaps.c.right_kb == name)
        connection.execute(delete(overlaps).where(touches, overlaps.c.verdict.is_(None)))
        connection.execute(delete(kbs).where(mine))


def _ids(
    db: Database, table: Table, kb_id: int, *where: ColumnElement[bool]
) -> Iterator[list[int]]:
    first, stop = id_range(kb_id)
    ids = table.c.id
    while True:
        query = select(ids).where(ids >= first, ids < stop, *where).order_by(ids).limit(BATCH)
        page = [row[0] for row in db.rows(query)]
        if page:
            yield page
        if len(page) < BATCH:
            return
        first = page[-1] + 1
