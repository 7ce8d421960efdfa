"""Reads a source into a KB: batch by batch, each with its state in one transaction.

Readers see nothing of it until the whole source is in: then its revision takes the place of the
one before in one transaction.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import socket
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from sqlalchemy import delete, exists, insert, select, update
from sqlalchemy.engine import Connection

from kglink.errors import (
    KBBusyError,
    ShrinkError,
    SourceError,
    StoreError,
    UnknownNameError,
    UsageError,
)
from kglink.files.digest import text_digest
from kglink.files.manifest import now
from kglink.records import EntityId, OnProgress, Progress, Record
from kglink.store import entity_reader
from kglink.store.database import Database, chunks
from kglink.store.golds import (
    count_found,
    count_golds,
    count_unresolved,
    first_unresolved,
    outdated_golds,
    resolve_golds,
)
from kglink.store.kbs import (
    count,
    count_after_merge,
    count_entities,
    highest_id,
    kb_id,
    stored_totals,
)
from kglink.store.prepared import Batch, batches
from kglink.store.schema import RETIRED, STAGED, entities, ingests, kbs, removed_kbs
from kglink.store.values import IngestJob, IngestSummary, Tally, Totals, json_of
from kglink.store.verdicts import apply_verdicts
from kglink.store.writers import (
    DOCUMENTS,
    ENTITIES,
    LOOKUP_SIZE,
    MAPPINGS,
    WRITERS,
    forget_returned,
    note_removed,
    plan_batch,
    remove_hidden,
    remove_kb,
)

#: An update that removes more entities than this, and more than half of all, is refused.
MOST_GONE = 10

_KB_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
#: What all KBs together are called where figures stand beside those of each KB.
_ALL_KBS = frozenset({"joint", "judged_joint"})


def check_kb_name(name: str) -> None:
    """Refuse a name that is no KB name, and suggest one."""
    if not isinstance(name, str):
        hint = "The name comes first, then the source."
        raise UsageError(f"a KB's name is of the type {type(name).__name__}", hint=hint)
    if not _KB_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no KB name: use a to z, 0 to 9, _ and -, at most 64 of them, "
            "a letter or digit first",
            hint=f"For instance: {suggested_name(name)}",
        )
    if name in _ALL_KBS:
        hint = f"For instance: {suggested_name(name)}"
        raise UsageError(f"{name!r} stands for all KBs together: take another name", hint=hint)


def suggested_name(name: str) -> str:
    """The KB name nearest to any text."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9_-]+", "_", plain).strip("_-")[:64] or "my_kb"
    return f"{name}_kb" if name in _ALL_KBS else name


class Ingest:
    """One job at work; the caller holds the KB against other processes."""

    def __init__(self, db: Database, job: IngestJob, progress: OnProgress = lambda _: None) -> None:
        self._db = db
        self._progress = progress
        if job.merge:  # the KBs that the KB's documents link to already stay
            query = select(kbs.c.links_to).where(kbs.c.name == job.kb)
            before = [json_of(row[0], list, "kbs.links_to") for row in db.rows(query)]
            names = [*map(str, chain.from_iterable(before)), *job.links_to]
            job = replace(job, links_to=tuple(dict.fromkeys(names)))
        self._job = job
        query = select(kbs.c.id).where(kbs.c.name == self._job.kb, kbs.c.removing == 1)
        for (half_gone,) in self._db.rows(query):
            remove_kb(self._db, half_gone, self._job.kb)
        self._at = self._start()
        self._resumed_from = self._at.read

    def run(self, records: Iterable[Record]) -> IngestSummary:
        """Read all records, then publish them in the place of all that there was."""
        try:
            if not self._at.complete:
                self._read(records)
        except BaseException:
            if self._at.read == 0:
                self._forget()
            raise
        if not any(tally.seen for tally in self._at.tallies):
            self._forget()
            raise _nothing_usable(self._job)
        try:
            return self._publish()
        except ShrinkError:  # the KB is as if the ingest had never begun
            with self._db.write() as connection:
                connection.execute(delete(ingests).where(ingests.c.kb_id == self._at.kb_id))
            remove_hidden(self._db, self._at.kb_id)
            raise

    # ---------------------------------------------------------------------------- beginning
    def _start(self) -> IngestState:
        """Go on with an interrupted run of the same job, or start a new one."""
        with self._db.write() as connection:
            state = self._interrupted(connection)
            if state.read or state.complete:
                return state
        remove_hidden(self._db, state.kb_id, all_of_it=state.is_new)
        with self._db.write() as connection:
            begun = insert(ingests).values(
                kb_id=state.kb_id, fingerprint=fingerprint(self._job), read=0, complete=0,
                counts="[]", holder=holder(), started_at=now(),
            )  # fmt: skip
            connection.execute(begun)
            mine = kbs.c.id == state.kb_id
            connection.execute(update(kbs).where(mine).values(run=state.run))
        return state

    def _interrupted(self, connection: Connection) -> IngestState:
        """The state of an interrupted run of the same job, else that of a new one."""
        job = self._job
        row = connection.execute(select(kbs).where(kbs.c.name == job.kb)).mappings().first()
        if row is None:
            none = dict.fromkeys(("revision", "run", "removing", "last_id"), 0)
            values = _described(job) | none | dataclasses.asdict(Totals())
            made = (
                insert(kbs)
                .values(name=job.kb, licence=job.licence, updated_at=now(), **values)
                .returning(kbs.c.id)
            )
            return IngestState(connection.execute(made).scalar_one(), run=1, is_new=True)
        kb_id, is_new = row["id"], row["revision"] == 0
        mine = ingests.c.kb_id == kb_id
        running = select(ingests).where(mine).with_for_update()  # its last batch is waited for
        old = connection.execute(running).mappings().first()
        if old is not None and old["read"] and old["fingerprint"] == fingerprint(job):
            counts = json_of(old["counts"], list, "ingests.counts")
            tallies = tuple(Tally(*tally) for tally in counts)
            connection.execute(update(ingests).where(mine).values(holder=holder()))
            complete = bool(old["complete"])
            return IngestState(kb_id, row["run"], is_new, old["read"], complete, tallies)
        # First of all: what it had staged is taken away, so that it can never go on.
        connection.execute(delete(ingests).where(mine))
        return IngestState(kb_id, row["run"] + 1, is_new)

    def _hold(self, connection: Connection) -> None:
        """Go on alone: an error where our session was lost, and another process has the KB."""
        c, at = ingests.c, self._at
        mine = (c.kb_id == at.kb_id) & (c.read == at.read) & (c.holder == holder())
        if not connection.scalar(select(1).where(mine).with_for_update()):
            hint = "Wait until it is done."
            raise KBBusyError(f"another process has taken over KB {self._job.kb!r}", hint=hint)

    def _forget(self) -> None:
        """Take back the start of an ingest that has written nothing."""
        # The error that brought us here is the one to tell, not that this failed as well.
        with contextlib.suppress(StoreError), self._db.write() as connection:
            self._hold(connection)
            connection.execute(delete(ingests).where(ingests.c.kb_id == self._at.kb_id))
            mine = kbs.c.id == self._at.kb_id
            if self._at.is_new:
                connection.execute(delete(kbs).where(mine))
            else:
                connection.execute(update(kbs).where(mine).values(run=self._at.run - 1))

    # ----------------------------------------------------------------------------- reading
    def _read(self, records: Iterable[Record]) -> None:
        for read, batch in batches(records, self._job, self._at.read):
            self._write(read, batch)
            self._progress(Progress("reading", self._at.read))
        with self._db.write() as connection:
            self._hold(connection)
            after = _saved(connection, replace(self._at, complete=True))
        self._at = after

    def _write(self, read: int, batch: Batch) -> None:
        db, at, job = self._db, self._at, self._job
        tallies = list(at.tallies)
        with db.write() as connection:
            self._hold(connection)
            outdated = partial(outdated_golds, connection, job.links_to or (job.kb,))
            for kind, (writer, records) in enumerate(zip(WRITERS, batch, strict=True)):
                if not records:
                    continue
                has_staged = not at.is_new and at.tallies[kind].altered > 0
                is_keyed = writer is DOCUMENTS and job.resolve == "key" and not at.is_new
                plan = plan_batch(
                    *(db, connection, writer.table, at.kb_id, at.run, records),
                    has_staged=has_staged,
                    outdated=outdated if is_keyed else None,
                )
                # A mapping that is said twice, as with two justifications, is no mistake.
                for duplicate in plan.duplicates if writer is not MAPPINGS else ():
                    job.problems.report(duplicate)
                place = at.kb_id if at.is_new else at.kb_id + STAGED
                writer.write(db, connection, place, at.run, plan)
                tallies[kind] += plan.tally
            after = _saved(connection, replace(at, read=read, tallies=tuple(tallies)))
        self._at = after

    # --------------------------------------------------------------------------- finishing
    def _publish(self) -> IngestSummary:
        """Show the new revision to readers, all of it at once."""
        db, job, at = self._db, self._job, self._at
        resolve = partial(resolve_golds, db, at.kb_id, job.links_to or (job.kb,), job.resolve)
        totals = None
        if at.is_new:  # Nobody sees the KB yet.
            resolve(db.write)
        with db.write() as connection:
            self._hold(connection)
            if not at.is_new:
                totals = count_after_merge(connection, at.kb_id) if job.merge else None
                at = replace(at, tallies=self._show_staged(connection))
                resolve(lambda: contextlib.nullcontext(connection))
            unmapped = apply_verdicts(db, connection, at.kb_id, job.kb, job.links_to)
            revision, totals = finish(connection, at, job, totals)
            unresolved = count_unresolved(connection, at.kb_id)
            examples = first_unresolved(connection, at.kb_id) if unresolved else ()
            golds = count_golds(connection, at.kb_id) if totals.mentions else 0
            found = count_found(connection, at.kb_id, job.links_to) if golds else {}
        if any(tally.altered for tally in at.tallies):
            remove_hidden(db, at.kb_id)
            with db.write() as connection:
                db.backend.settle(connection)
        of_entities, of_documents, of_mappings = at.tallies
        return IngestSummary(
            kb=job.kb,
            revision=revision,
            **dataclasses.asdict(of_entities),
            aliases=totals.aliases,
            with_description=totals.with_description,
            documents=totals.documents,
            mentions=totals.mentions,
            gold_unresolved=unresolved,
            resumed_from=self._resumed_from,
            document_tally=of_documents,
            mapping_tally=of_mappings,
            mappings_unresolved=unmapped,
            unresolved_examples=examples,
            golds=golds,
            gold_found=found,
        )

    def _show_staged(self, connection: Connection) -> tuple[Tally, ...]:
        job, at = self._job, self._at
        tallies = []
        for writer, tally in zip(WRITERS, at.tallies, strict=True):
            gone = 0
            # A source of documents alone takes no entity away, and the other way round.
            if tally.seen:
                if writer is ENTITIES and not job.merge:
                    # Keep the keys that this run did not see.
                    staged = entities.alias("staged")
                    comes = staged.c.kb_id == at.kb_id + STAGED, staged.c.key == entities.c.key
                    unseen = (entities.c.run != at.run) & ~exists().where(*comes)
                    note_removed(connection, at.kb_id, unseen)
                gone = -tally.changed + writer.publish_staged(
                    self._db, connection, at.kb_id, at.run, merge=job.merge
                )
                if writer is ENTITIES:
                    forget_returned(connection, at.kb_id)
                    before = gone + tally.changed + tally.unchanged
                    if not job.allow_shrink and gone > MOST_GONE and 2 * gone > before:
                        raise _shrink_error(job, gone, before)
            tallies.append(tally + Tally(removed=gone))
        return tuple(tallies)


def _shrink_error(job: IngestJob, gone: int, before: int) -> ShrinkError:
    would = f"{job.source} would remove {gone:,} of the {before:,} entities of {job.kb!r}"
    again = "run the same command with --allow-shrink; the KB stays as it was."
    if gone < before:
        return ShrinkError(would, hint=f"Is it the whole source? If so, {again}")
    return ShrinkError(
        f"{would}: it has none of their ids",
        hint=f"Are ids read from another column or sheet now? If they are new, {again}",
    )


def _nothing_usable(job: IngestJob) -> SourceError:
    bad, hint = "", "Check that the file is not empty and that --adapter fits it."
    if job.problems.counts:
        first, *mend = job.problems.examples[0].splitlines()
        bad = f"; bad records: {job.problems.total:,}, such as {first}"
        hint = " ".join(mend).strip() or hint
    return SourceError(f"no usable record in {job.source}{bad}", hint=hint)


# --------------------------------------------------------------------------------- state
@dataclass(frozen=True)
class IngestState:
    """How far an ingest has come. ``run`` marks the records that it has seen.

    ``is_new`` where the KB has no revision yet. The tallies are those of entities, documents and
    mappings.
    """

    kb_id: int
    run: int
    is_new: bool
    read: int = 0
    complete: bool = False
    tallies: tuple[Tally, ...] = (Tally(), Tally(), Tally())


def _saved(connection: Connection, state: IngestState) -> IngestState:
    """Write down how far the ingest has come, in the transaction that brought it there."""
    counts = _json([dataclasses.astuple(tally) for tally in state.tallies])
    mine = update(ingests).where(ingests.c.kb_id == state.kb_id)
    values = mine.values(read=state.read, complete=int(state.complete), counts=counts)
    connection.execute(values)
    return state


def finish(
    connection: Connection, state: IngestState, job: IngestJob, totals: Totals | None = None
) -> tuple[int, Totals]:
    """Publish the KB as complete; its revision rises if anything in it is other than before.

    ``totals``: what it holds now; None: that is counted.
    """
    totals = totals or count(connection, state.kb_id)
    mine = kbs.c.id == state.kb_id
    row = connection.execute(select(kbs).where(mine)).one()
    last: int = row.revision
    if state.is_new:
        gone = select(removed_kbs.c.revision).where(removed_kbs.c.name == job.kb)
        last = connection.scalar(gone) or 0
    revision = last + int(state.is_new or any(tally.altered for tally in state.tallies))
    values = _described(job) | dataclasses.asdict(totals)
    if job.merge and not state.is_new:  # the KB is still, before all, what its own source is
        values |= {name: row._mapping[name] for name in ("adapter", "source", "settings")}
    values |= {"licence": job.licence or row.licence, "revision": revision, "updated_at": now()}
    values["last_id"] = max(row.last_id, highest_id(connection, state.kb_id))
    connection.execute(update(kbs).where(mine).values(**values))
    connection.execute(delete(ingests).where(ingests.c.kb_id == state.kb_id))
    return revision, totals


def remove_entities(db: Database, kb: str, keys: Sequence[str]) -> int:
    """Remove some entities of a KB, all of them or none; says which revision it has then.

    An interrupted ingest of the KB cannot go on after it. The caller holds the KB.
    """
    with db.write() as connection:
        number = kb_id(connection, kb)
        known = entity_reader.get_entities(connection, (EntityId(kb, key) for key in keys))
        for key in keys:
            if EntityId(kb, key) not in known:
                raise UnknownNameError(f"entity of {kb}", key, None)
        connection.execute(delete(ingests).where(ingests.c.kb_id == number))
    remove_hidden(db, number)
    with db.write() as connection:
        totals = stored_totals(connection, number)
        for chunk in chunks(dict.fromkeys(keys), LOOKUP_SIZE):
            gone = entities.c.key.in_(chunk)
            totals -= count_entities(connection, (entities.c.kb_id == number) & gone)
            note_removed(connection, number, gone)
            retired = update(entities).where(entities.c.kb_id == number, gone)
            connection.execute(retired.values(kb_id=number + RETIRED))
        values = dataclasses.asdict(totals) | {"updated_at": now()}
        mine = kbs.c.id == number
        changed = update(kbs).where(mine).values(revision=kbs.c.revision + 1, **values)
        revision: int = connection.execute(changed.returning(kbs.c.revision)).scalar_one()
    remove_hidden(db, number)
    return revision


def fingerprint(job: IngestJob) -> str:
    """A hash of all that decides what an ingest writes."""
    parts = [job.fingerprint, job.adapter, _json(job.settings), list(job.links_to)]
    parts += [job.split, job.language, job.resolve, str(job.merge)]
    return text_digest(_json(parts))


def holder() -> str:
    """This process, in words."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _described(job: IngestJob) -> dict[str, object]:
    return {
        "adapter": job.adapter,
        "source": job.source,
        "settings": _json({"options": dict(job.options)}),
        "links_to": _json(job.links_to),
    }
