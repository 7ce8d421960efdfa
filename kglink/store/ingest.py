"""Reads a source into a KB: batch by batch, each with its state in one transaction."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import socket
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection

from kglink.errors import SourceError, StoreError, UsageError
from kglink.records import OnProgress, Progress, Record
from kglink.store.database import Database
from kglink.store.golds import count_unresolved, resolve_golds
from kglink.store.kbs import count
from kglink.store.prepared import Batch, batches
from kglink.store.schema import (
    documents,
    entities,
    ingests,
    kbs,
    mappings,
)
from kglink.store.values import IngestJob, IngestSummary, Tally, Totals
from kglink.store.verdicts import apply_verdicts
from kglink.store.writers import (
    DOCUMENTS,
    ENTITIES,
    MAPPINGS,
    Plan,
    Writer,
    plan_batch,
    remove_kb,
    stale_ids,
)

_KB_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def check_kb_name(name: str) -> None:
    """Refuse a name that is no KB name, and suggest one."""
    if not _KB_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no KB name: use a to z, 0 to 9, _ and -, at most 64 of them, "
            "a letter or digit first",
            hint=f"For instance: {suggested_name(name)}",
        )


def suggested_name(name: str) -> str:
    """The KB name nearest to any text."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_-]+", "_", plain).strip("_-")[:64] or "my_kb"


class Ingest:
    """One job at work; the caller holds the KB against other processes."""

    def __init__(self, db: Database, job: IngestJob, progress: OnProgress = lambda _: None) -> None:
        self._db = db
        self._job = job
        self._progress = progress
        self._finish_removal()
        with db.write() as connection:
            self._at = start(connection, job)
        self._resumed_from = self._at.read

    def run(self, records: Iterable[Record]) -> IngestSummary:
        """Read all records, then remove what they did not bring, then publish."""
        try:
            if not self._at.complete:
                self._read(records)
        except BaseException:
            if self._at.read == 0:
                self._forget()
            raise
        if not self._at.seen:
            self._forget()
            raise SourceError(
                f"no usable record in {self._job.source}",
                hint="Check that the file is not empty and that --adapter fits it.",
            )
        for writer in (ENTITIES, DOCUMENTS, MAPPINGS):
            self._sweep(writer)
        job = self._job
        resolve_golds(self._db, self._at.kb_id, job.links_to or (job.kb,), job.resolve)
        unmapped = apply_verdicts(self._db, self._at.kb_id, job.kb, job.links_to)
        return self._publish(unmapped)

    def _finish_removal(self) -> None:
        query = select(kbs.c.id).where(kbs.c.name == self._job.kb, kbs.c.removing == 1)
        for (kb_id,) in self._db.rows(query):
            remove_kb(self._db, kb_id, self._job.kb)

    # ----------------------------------------------------------------------------- reading
    def _read(self, records: Iterable[Record]) -> None:
        for batch in batches(records, self._job, self._at.read):
            self._write(batch)
            self._progress(Progress("reading", self._at.read))
        after = replace(self._at, complete=True)
        with self._db.write() as connection:
            save(connection, after)
        self._at = after

    def _write(self, batch: Batch) -> None:
        db, kb_id, run = self._db, self._at.kb_id, self._at.run
        with db.write() as connection:
            found = plan_batch(db, connection, entities, kb_id, run, batch.entities)
            texts = plan_batch(db, connection, documents, kb_id, run, batch.documents)
            for duplicate in found.duplicates + texts.duplicates:
                self._job.problems.report(duplicate)
            ENTITIES.write(db, connection, kb_id, run, found)
            DOCUMENTS.write(db, connection, kb_id, run, texts)
            pairs = self._write_mappings(connection, batch)
            after = self._after(batch.read, _tally(found), _tally(texts), pairs)
            save(connection, after)
        self._at = after

    def _write_mappings(self, connection: Connection, batch: Batch) -> Tally:
        if not batch.mappings:
            return Tally()
        at = self._at
        plan = plan_batch(self._db, connection, mappings, at.kb_id, at.run, batch.mappings)
        # A mapping that is said twice, as with two justifications, is no mistake.
        MAPPINGS.write(self._db, connection, at.kb_id, at.run, plan)
        return _tally(plan)

    def _after(
        self, read: int, of_entities: Tally, of_documents: Tally, of_mappings: Tally
    ) -> IngestState:
        altered = of_entities.altered + of_documents.altered + of_mappings.altered
        return replace(
            self._at,
            read=read,
            dirty=self._at.dirty or bool(altered),
            entities=self._at.entities + of_entities,
            documents=self._at.documents + of_documents,
            mappings=self._at.mappings + of_mappings,
        )

    # --------------------------------------------------------------------------- finishing
    def _sweep(self, writer: Writer) -> None:
        # A source of documents alone takes no entity away, and the other way round.
        kinds = (ENTITIES, DOCUMENTS, MAPPINGS)
        brought = (self._at.entities, self._at.documents, self._at.mappings)
        if not brought[kinds.index(writer)].seen:
            return
        for ids in stale_ids(self._db, writer.table, self._at.kb_id, self._at.run):
            gone = (Tally(removed=len(ids) if kind is writer else 0) for kind in kinds)
            after = self._after(self._at.read, *gone)
            with self._db.write() as connection:
                writer.remove(self._db, connection, ids)
                save(connection, after)
            self._at = after

    def _publish(self, unmapped: int) -> IngestSummary:
        with self._db.write() as connection:
            unresolved = count_unresolved(connection, self._at.kb_id)
            revision, totals = finish(connection, self._at, self._job)
        if self._at.dirty:
            with self._db.write() as connection:
                self._db.backend.settle(connection)
        done = self._at.entities
        return IngestSummary(
            kb=self._job.kb,
            revision=revision,
            added=done.added,
            changed=done.changed,
            removed=done.removed,
            unchanged=done.unchanged,
            aliases=totals.aliases,
            with_description=totals.with_description,
            documents=totals.documents,
            mentions=totals.mentions,
            gold_unresolved=unresolved,
            resumed_from=self._resumed_from,
            document_tally=self._at.documents,
            mapping_tally=self._at.mappings,
            mappings_unresolved=unmapped,
        )

    def _forget(self) -> None:
        if self._at.dirty:
            return
        # The error that brought us here is the one to tell, not that this failed as well.
        with contextlib.suppress(StoreError), self._db.write() as connection:
            forget(connection, self._at)


def _tally(plan: Plan) -> Tally:
    return Tally(len(plan.added), len(plan.changed), 0, len(plan.unchanged))


# --------------------------------------------------------------------------------- state
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
