"""The state of a running ingest: committed with each batch, so that kill -9 loses no more."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.engine import Connection

from kglink.store.schema import (
    aliases,
    documents,
    entities,
    id_range,
    ingests,
    kbs,
    mappings,
    mentions,
)
from kglink.store.values import IngestJob, Tally, Totals


@dataclass(frozen=True)
class IngestState:
    """How far an ingest has come. ``run`` marks the rows that it has seen."""

    kb_id: int
    run: int
    read: int = 0
    complete: bool = False
    dirty: bool = False
    is_new: bool = False
    entities: Tally = field(default_factory=Tally)
    documents: Tally = field(default_factory=Tally)
    mappings: Tally = field(default_factory=Tally)

    @property
    def seen(self) -> int:
        """How many records of all kinds the source brought."""
        return self.entities.seen + self.documents.seen + self.mappings.seen


def now() -> str:
    """The time in UTC, to the second, as ISO text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def start(connection: Connection, job: IngestJob) -> IngestState:
    """Go on with an interrupted run of the same job, or start a new one."""
    row = connection.execute(select(kbs).where(kbs.c.name == job.kb)).mappings().one_or_none()
    if row is None:
        kb_id = connection.execute(
            insert(kbs).values(**_new_kb(job)).returning(kbs.c.id)
        ).scalar_one()
        run, dirty, is_new = 0, False, True
    else:
        kb_id, run, dirty = row["id"], row["run"], bool(row["dirty"])
        is_new = row["revision"] == 0 and not dirty
    old = connection.execute(select(ingests).where(ingests.c.kb_id == kb_id)).mappings().first()
    if old is not None and old["fingerprint"] == fingerprint(job):
        tallies = {name: Tally(**tally) for name, tally in json.loads(old["counts"]).items()}
        mine = {"holder": holder()}
        connection.execute(update(ingests).where(ingests.c.kb_id == kb_id).values(**mine))
        complete = bool(old["complete"])
        return IngestState(kb_id, run, old["read"], complete, dirty, is_new, **tallies)
    state = IngestState(kb_id, run + 1, dirty=dirty, is_new=is_new)
    connection.execute(delete(ingests).where(ingests.c.kb_id == kb_id))
    connection.execute(insert(ingests).values(**_new_ingest(job, state)))
    connection.execute(update(kbs).where(kbs.c.id == kb_id).values(run=state.run))
    return state


def save(connection: Connection, state: IngestState) -> None:
    """Write down how far the ingest has come, in the transaction that brought it there."""
    values = {
        "read": state.read,
        "complete": int(state.complete),
        "counts": _counts(state),
    }
    connection.execute(update(ingests).where(ingests.c.kb_id == state.kb_id).values(**values))
    if state.dirty:
        connection.execute(update(kbs).where(kbs.c.id == state.kb_id).values(dirty=1))


def forget(connection: Connection, state: IngestState) -> None:
    """Take back the start of an ingest that has changed nothing."""
    connection.execute(delete(ingests).where(ingests.c.kb_id == state.kb_id))
    mine = kbs.c.id == state.kb_id
    if state.is_new:
        connection.execute(delete(kbs).where(mine))
    else:
        connection.execute(update(kbs).where(mine).values(run=state.run - 1))


def finish(connection: Connection, state: IngestState, job: IngestJob) -> tuple[int, Totals]:
    """Publish the KB as complete; its revision rises if anything in it is other than before."""
    totals = count(connection, state.kb_id)
    mine = kbs.c.id == state.kb_id
    row = connection.execute(select(kbs.c.revision, kbs.c.licence).where(mine)).one()
    revision = row.revision + int(state.dirty or row.revision == 0)
    values = _described(job) | dataclasses.asdict(totals)
    values |= {"licence": job.licence or row.licence, "revision": revision, "dirty": 0}
    connection.execute(update(kbs).where(mine).values(**values, updated_at=now()))
    connection.execute(delete(ingests).where(ingests.c.kb_id == state.kb_id))
    return revision, totals


def count(connection: Connection, kb_id: int) -> Totals:
    """Count what a KB holds."""
    first, stop = id_range(kb_id)

    def rows(column: Any, *where: Any) -> int:
        query = select(func.count()).where(column >= first, column < stop, *where)
        return connection.scalar(query) or 0

    return Totals(
        entities=rows(entities.c.id),
        with_description=rows(entities.c.id, entities.c.description != ""),
        aliases=rows(aliases.c.entity_id),
        documents=rows(documents.c.id),
        mentions=rows(mentions.c.document_id),
        mappings=rows(mappings.c.id),
    )


def fingerprint(job: IngestJob) -> str:
    """A hash of all that decides what an ingest writes."""
    parts = [job.fingerprint, job.adapter, _json(job.settings), list(job.links_to)]
    parts += [job.split, job.language, job.resolve]
    return hashlib.blake2b(_json(parts).encode(), digest_size=16).hexdigest()


def holder() -> str:
    """This process, in words."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _counts(state: IngestState) -> str:
    names = ("entities", "documents", "mappings")
    return _json({name: dataclasses.asdict(getattr(state, name)) for name in names})


def _described(job: IngestJob) -> dict[str, object]:
    return {
        "adapter": job.adapter,
        "source": job.source,
        "settings": _json(dict(job.settings)),
        "links_to": _json(job.links_to),
    }


def _new_kb(job: IngestJob) -> dict[str, object]:
    empty = dict.fromkeys(("revision", "run", "dirty", "removing"), 0)
    return {
        "name": job.kb,
        "licence": job.licence,
        "updated_at": now(),
        **_described(job),
        **empty,
        **dataclasses.asdict(Totals()),
    }


def _new_ingest(job: IngestJob, state: IngestState) -> dict[str, object]:
    return {
        "kb_id": state.kb_id,
        "fingerprint": fingerprint(job),
        "read": 0,
        "complete": 0,
        "counts": _counts(state),
        "holder": holder(),
        "started_at": now(),
    }
