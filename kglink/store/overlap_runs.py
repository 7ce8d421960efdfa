"""When overlaps were last looked for, and a token that tells whether any has changed."""

from __future__ import annotations

import secrets
from dataclasses import astuple, replace

from sqlalchemy import delete, exists, insert, or_, select, update
from sqlalchemy.engine import Connection

from kglink.records import OverlapRun
from kglink.store.database import Database
from kglink.store.schema import kbs, overlap_runs, overlap_state, overlaps

r = overlap_runs.c


def touch(connection: Connection) -> None:
    """Say, before they do, that overlaps change in this transaction.

    On PostgreSQL two writers meet here, and so never wait for each other's rows.
    """
    connection.execute(update(overlap_state).values(token=secrets.token_hex(8)))


def read_state(db: Database) -> str:
    """A text that is another one after every change of an overlap or verdict.

    The revisions of their KBs are in it: an overlap comes and goes with its entities.
    """
    has_overlaps = or_(
        exists().where(overlaps.c.left_kb == kbs.c.name),
        exists().where(overlaps.c.right_kb == kbs.c.name),
    )
    query = select(kbs.c.name, kbs.c.revision, kbs.c.dirty)
    query = query.where(has_overlaps, kbs.c.removing == 0).order_by(kbs.c.name)
    with db.read() as connection:
        token = connection.scalar(select(overlap_state.c.token))
        rows = connection.execute(query).all()
    return " ".join([str(token), *(f"{name}:{revision}:{dirty}" for name, revision, dirty in rows)])


def save_run(connection: Connection, run: OverlapRun) -> None:
    """Put ``run`` in the place of the last one of its two KBs."""
    if run.left > run.right:
        run = replace(
            run,
            left=run.right,
            right=run.left,
            left_revision=run.right_revision,
            right_revision=run.left_revision,
        )
    forget_run(connection, run.left, run.right)
    connection.execute(insert(overlap_runs).values(astuple(run)))


def forget_run(connection: Connection, left: str, right: str) -> None:
    """Forget the run of two KBs, the first in the alphabet on the left."""
    connection.execute(delete(overlap_runs).where(r.left_kb == left, r.right_kb == right))


def forget_runs(connection: Connection, kb: str) -> None:
    """Forget the runs of a KB."""
    connection.execute(delete(overlap_runs).where(or_(r.left_kb == kb, r.right_kb == kb)))


def read_runs(db: Database) -> list[OverlapRun]:
    """The last run of each pair of KBs, in the order of their names."""
    query = select(overlap_runs).order_by(r.left_kb, r.right_kb)
    return [OverlapRun(*row) for row in db.rows(query)]
