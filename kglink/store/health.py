"""What is wrong with a store, in words."""

from __future__ import annotations

from sqlalchemy import select

from kglink.errors import StoreError
from kglink.store.database import Database
from kglink.store.schema import ingests, kbs


def find_problems(db: Database) -> list[str]:
    """All that is broken or unfinished and not at work; an empty list for a healthy store."""
    try:
        return db.problems() + _unfinished(db)
    except StoreError as error:
        return [str(error)]


def _unfinished(db: Database) -> list[str]:
    query = (
        select(kbs.c.name, kbs.c.removing, kbs.c.dirty, ingests.c.read, ingests.c.started_at)
        .join_from(kbs, ingests, ingests.c.kb_id == kbs.c.id, isouter=True)
        .order_by(kbs.c.id)
    )
    found = []
    for name, removing, dirty, read, started_at in db.rows(query):
        if removing:
            text = f"KB {name!r}: its removal stopped half-way; run kglink kbs remove again"
        elif read is not None:
            text = (
                f"KB {name!r}: add-kb of {started_at} stopped after {read:,} records; "
                "run it again to go on"
            )
        elif dirty:
            text = f"KB {name!r}: an update stopped half-way; run add-kb again"
        else:
            continue
        with db.exclusive(name) as idle:
            if idle:
                found.append(text)
    return found
