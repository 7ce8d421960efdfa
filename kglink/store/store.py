"""The front door of the entity store."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import URL, select
from sqlalchemy.engine import Connection

from kglink.errors import KBBusyError, UnknownNameError, UsageError
from kglink.records import CORRECTIONS, Entity, OnProgress, Record
from kglink.store import document_reader, entity_reader
from kglink.store.database import Database
from kglink.store.golds import count_annotated, count_gone, named_entities
from kglink.store.ingest import Ingest, check_kb_name, remove_entities
from kglink.store.kbs import find_problems, kb_id, read_kbs
from kglink.store.memory import MemoryTable
from kglink.store.overlaps import OverlapTable
from kglink.store.schema import ingests, kbs, store_state
from kglink.store.values import IngestJob, IngestSummary, KBInfo
from kglink.store.verdicts import VerdictTable
from kglink.store.writers import find_kb, remove_kb

Given = ParamSpec("Given")
Item = TypeVar("Item")


def _reads(
    read: Callable[Concatenate[Connection, Given], Item],
) -> Callable[Concatenate[Store, Given], Item]:
    """A method that reads in a transaction of its own, or whose iterator does."""

    @functools.wraps(read)
    def method(store: Store, /, *given: Given.args, **named: Given.kwargs) -> Item:
        with store._db.read() as connection:
            return read(connection, *given, **named)

    @functools.wraps(read)
    def stream(store: Store, /, *given: Given.args, **named: Given.kwargs) -> Any:
        with store._db.read() as connection:
            yield from read(connection, *given, **named)  # type: ignore[misc]  # an iterator

    return stream if inspect.isgeneratorfunction(read) else method


def _no_entity(record: Record) -> Record:
    """A record of `CORRECTIONS`, where only texts are kept."""
    if isinstance(record, Entity):
        raise UsageError(
            f"KB {CORRECTIONS!r} keeps the texts that people corrected, and no entities",
            hint="Give the KB another name.",
        )
    return record


class Store(OverlapTable, VerdictTable, MemoryTable):
    """KBs, their entities and documents, and the overlaps between them, in one database.

    An iterator sees the store as it was when it began, whatever is written meanwhile. It reads a
    page at a time, and holds a connection until it comes to its end or is dropped.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    @classmethod
    def open(cls, url: str | URL, *, create: bool = True) -> Store:
        """Open ``sqlite:///PATH`` or a PostgreSQL URL; an older schema is brought up to date."""
        return cls(Database(url, create=create))

    def close(self) -> None:
        """Close all connections."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Store]:
        """The store as it is now, for one thread; others go on writing."""
        with self._db.read() as connection:
            yield Store(self._db.seen_by(connection))

    def one_state(self) -> contextlib.AbstractContextManager[None]:
        """All that this thread reads inside comes from one state of the store, at less cost.

        An iterator that is begun inside ends there.
        """
        return self._db.one_state()

    @functools.cached_property
    def identity(self) -> str:
        """What tells this store from all others, wherever it lies."""
        return str(self._db.rows(select(store_state.c.identity))[0][0])

    def state(self) -> tuple[object, ...]:
        """What is another one after every change of a KB, an overlap, a verdict or the memory."""
        of_kb = kbs.c.name, kbs.c.revision, kbs.c.removing, kbs.c.entities, kbs.c.licence
        with self._db.read() as connection:
            row = connection.execute(select(store_state.c.overlaps, store_state.c.memory)).one()
            return (tuple(row), tuple(map(tuple, connection.execute(select(*of_kb)))))

    # --------------------------------------------------------------------------------- KBs
    def kbs(self) -> list[KBInfo]:
        """All KBs in the order in which they were added."""
        return read_kbs(self._db)

    def kb(self, name: str, *, half_removed: bool = False) -> KBInfo:
        """One KB; UnknownNameError where there is none of that name.

        ``half_removed``: also one whose removal was stopped, which `remove_kb` finishes.
        """
        found = {info.name: info for info in read_kbs(self._db, half_removed=half_removed)}
        if name not in found:
            raise UnknownNameError("KB", name, found)
        return found[name]

    def ingest(
        self, job: IngestJob, records: Iterable[Record], *, progress: OnProgress = lambda _: None
    ) -> IngestSummary:
        """Read a source into a KB: make it, update it, or go on with an interrupted ingest.

        ``progress`` gets how many records are committed. Readers see the KB as it was before
        until all of the source is in, then all of it at once. After an error or a kill the same
        job goes on from its last committed batch.
        """
        check_kb_name(job.kb)
        with self._db.read() as connection:
            for name in job.links_to:
                kb_id(connection, name)
        if job.kb == CORRECTIONS:
            records = map(_no_entity, records)
        with self._alone(job.kb):
            return Ingest(self._db, job, progress).run(records)

    def remove_entities(self, kb: str, keys: Sequence[str]) -> int:
        """Remove some entities of a KB, all of them or none; says which revision it has then.

        Verdicts on their overlaps are kept for their return.
        """
        with self._alone(kb):
            return remove_entities(self._db, kb, keys)

    def remove_kb(self, name: str) -> None:
        """Remove a KB, batch by batch; verdicts on its overlaps are kept for its return."""
        number = find_kb(self._db, name)
        with self._alone(name):
            remove_kb(self._db, number, name)

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        with self._db.exclusive(name) as held:
            if not held:
                query = select(ingests.c.holder).join(kbs, kbs.c.id == ingests.c.kb_id)
                rows = self._db.rows(query.where(kbs.c.name == name))
                holder = rows[0][0] if rows else "another process"
                raise KBBusyError(
                    f"KB {name!r} is being changed by {holder}",
                    hint="Wait until it is done, or stop that process and run this again.",
                )
            yield

    # ---------------------------------------------------------------- entities and documents
    folded_entities = _reads(entity_reader.read_entities)
    count_changes = _reads(entity_reader.count_changes)
    changes = _reads(entity_reader.read_changes)
    get_entities = _reads(entity_reader.get_entities)
    existing = _reads(entity_reader.existing)
    children = _reads(entity_reader.read_children)
    aliases_of = _reads(entity_reader.read_aliases)
    successors = _reads(entity_reader.read_successors)
    removed_in = _reads(entity_reader.removed_in)
    count_bearers = _reads(entity_reader.count_bearers)
    bearers_of = _reads(entity_reader.read_bearers)
    named_like_this = _reads(entity_reader.named_like_this)
    bracketed_titles = _reads(entity_reader.read_bracketed_titles)
    types_of = _reads(entity_reader.read_types)
    wanted_keys = _reads(entity_reader.read_wanted)
    documents = _reads(document_reader.read_documents)
    learning_split = _reads(document_reader.learning_split)
    count_annotated = _reads(count_annotated)
    count_gone_golds = _reads(count_gone)
    named = _reads(named_entities)
    count_documents = _reads(document_reader.count_documents)
    mentions_of = _reads(document_reader.read_mentions_of)
    mappings = _reads(document_reader.read_mappings)

    def entities(self, kb: str) -> Iterator[Entity]:
        """All entities of a KB in the order of their keys."""
        return (entity for entity, _ in self.folded_entities(kb))

    def records(
        self, kb: str, kinds: Collection[str], split: str | None = None
    ) -> Iterator[Record]:
        """Entities, documents and mappings (those of ``kinds``) of one revision of a KB.

        Golds are kept as `documents` keeps them with ``unresolved``.
        """
        with self._db.read() as connection:
            if "entities" in kinds:
                for entity, _ in entity_reader.read_entities(connection, kb):
                    yield entity
            if "documents" in kinds:
                yield from document_reader.read_documents(connection, kb, split, unresolved=True)
            if "mappings" in kinds:
                yield from document_reader.read_mappings(connection, kb)

    # ------------------------------------------------------------------------------ health
    def check(self) -> list[str]:
        """What is broken or left unfinished; an empty list for a healthy store."""
        return find_problems(self._db)
