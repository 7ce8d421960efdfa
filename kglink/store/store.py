"""The front door of the entity store."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import URL, select
from sqlalchemy.engine import Connection

from kglink.errors import StoreError, UnknownNameError
from kglink.records import (
    CodeMapping,
    Document,
    Entity,
    EntityId,
    Judgement,
    OnProgress,
    Overlap,
    OverlapRun,
    Record,
    Verdict,
)
from kglink.store import document_reader, entity_reader
from kglink.store.chosen import WantedEntities, read_types, read_wanted
from kglink.store.database import Database
from kglink.store.golds import count_annotated, count_gone
from kglink.store.ingest import Ingest, check_kb_name, remove_entities
from kglink.store.kbs import find_problems, kb_id, read_kbs
from kglink.store.memory import Learnt, MemoryTable, PartOfMemory, Unmarked, nothing_unmarked
from kglink.store.occurrences import Meaning
from kglink.store.overlaps import OverlapTable, Wanted, read_runs, read_state
from kglink.store.schema import ingests, kbs, store_state
from kglink.store.successors import Successor, read_successors
from kglink.store.values import IngestJob, IngestSummary, KBInfo, StoredAlias
from kglink.store.verdicts import judge, judgement_of, put_back
from kglink.store.writers import find_kb, remove_kb

Given = ParamSpec("Given")
Item = TypeVar("Item")


class Store:
    """KBs, their entities and documents, and the overlaps between them, in one database.

    An iterator sees the store as it was when it began, whatever is written meanwhile. It reads a
    page at a time, and holds a connection until it comes to its end or is dropped.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._overlaps = OverlapTable(db)
        self._memory = MemoryTable(db)

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

    def kb(self, name: str) -> KBInfo:
        """One KB; UnknownNameError where there is none of that name."""
        found = {info.name: info for info in self.kbs()}
        if name not in found:
            raise UnknownNameError("KB", name, found)
        return found[name]

    def ingest(
        self,
        job: IngestJob,
        records: Iterable[Record],
        *,
        progress: OnProgress = lambda _: None,
    ) -> IngestSummary:
        """Read a source into a KB: make it, update it, or go on with an interrupted ingest.

        ``progress`` is told how many records are committed. Readers see the KB as it was before
        until all of the source is in, then all of it at once. After an error or a kill the same
        job goes on from its last committed batch.
        """
        check_kb_name(job.kb)
        with self._db.read() as connection:
            for name in job.links_to:
                kb_id(connection, name)
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
                query = (
                    select(ingests.c.holder)
                    .join(kbs, kbs.c.id == ingests.c.kb_id)
                    .where(kbs.c.name == name)
                )
                holders = [row[0] for row in self._db.rows(query)] or ["another process"]
                raise StoreError(
                    f"KB {name!r} is being changed by {holders[0]}",
                    hint="Wait until it is done, or stop that process and run this again.",
                )
            yield

    def _stream(
        self,
        read: Callable[Concatenate[Connection, Given], Iterator[Item]],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> Iterator[Item]:
        with self._db.read() as connection:
            yield from read(connection, *given, **named)

    # ---------------------------------------------------------------------------- entities
    def entities(self, kb: str) -> Iterator[Entity]:
        """All entities of a KB in the order of their keys."""
        return (entity for entity, _ in self.folded_entities(kb))

    def folded_entities(self, kb: str) -> Iterator[entity_reader.FoldedEntity]:
        """All entities of a KB in the order of their keys, with their folded names."""
        return self._stream(entity_reader.read_entities, kb)

    def get_entities(self, ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
        """Entities by their ids; those that do not exist are left out."""
        with self._db.read() as connection:
            return entity_reader.get_entities(connection, ids)

    def existing(self, ids: Iterable[EntityId]) -> set[EntityId]:
        """Those of some ids that entities have."""
        with self._db.read() as connection:
            return entity_reader.existing(connection, ids)

    def at_addresses(self, urls: Iterable[str]) -> dict[str, list[EntityId]]:
        """The entities that have some web addresses, by these; slow, for there is no index."""
        with self._db.read() as connection:
            return entity_reader.at_addresses(connection, urls)

    def children(self, entity: EntityId) -> list[tuple[EntityId, str]]:
        """The entities of its KB of which an entity is a parent, with their titles, by key."""
        with self._db.read() as connection:
            return entity_reader.read_children(connection, entity)

    def aliases_of(self, kb: str) -> Iterator[StoredAlias]:
        """All names of a KB in the order of their entities' keys, each entity's title first."""
        return self._stream(entity_reader.read_aliases, kb)

    def shared_names(self, left: str, right: str) -> Iterator[tuple[str, str, str]]:
        """All (left key, right key, folded name) of entities with a folded name in common."""
        return self._stream(entity_reader.read_shared_names, left, right)

    def successors(self, gone: EntityId) -> list[Successor]:
        """What a source says took the place of a key that its KB does not have."""
        with self._db.read() as connection:
            return read_successors(connection, gone)

    def count_bearers(self, kb: str, names: Iterable[str]) -> dict[str, int]:
        """How many names of a KB fold to each of ``names``; those with none are left out."""
        with self._db.read() as connection:
            return entity_reader.count_bearers(connection, kb, names)

    def bearers_of(self, kb: str, names: Iterable[str]) -> Iterator[entity_reader.Bearer]:
        """Every name of a KB that folds to one of ``names``, in no special order."""
        return self._stream(entity_reader.read_bearers, kb, names)

    def bracketed_titles(self, kb: str) -> Iterator[tuple[str, str]]:
        """Key and title of every entity whose title ends in a bracket."""
        return self._stream(entity_reader.read_bracketed_titles, kb)

    def types_of(self, kb: str) -> list[str]:
        """The types of a KB's entities."""
        with self._db.read() as connection:
            return read_types(connection, kb)

    def wanted_keys(self, kb: str, wanted: WantedEntities) -> Iterator[str]:
        """The keys of the entities of some types and branches, in their order."""
        return self._stream(read_wanted, kb, wanted)

    # --------------------------------------------------------------------------- documents
    def documents(
        self, kb: str | None = None, split: str | None = None, *, unresolved: bool = False
    ) -> Iterator[Document]:
        """The documents of one KB or of all, in the order of KBs and of the documents' ids.

        A gold holds the entities that exist now. One of which none exists is None: unknown; with
        ``unresolved`` it is kept, in its source's words where nothing was ever found for it.
        """
        return self._stream(document_reader.read_documents, kb, split, unresolved=unresolved)

    def count_annotated(self, docs: Sequence[str] = ()) -> dict[str, int]:
        """How many mentions mean an entity of each KB; without the split test."""
        with self._db.read() as connection:
            return count_annotated(connection, docs)

    def count_gone_golds(self, kb: str) -> int:
        """How many golds of documents are of entities that a KB had and has no longer."""
        with self._db.read() as connection:
            return count_gone(connection, kb)

    def count_documents(self, kb: str, split: str | None = None) -> int:
        """How many documents a KB has, in one split or in all."""
        with self._db.read() as connection:
            return document_reader.count_documents(connection, kb, split)

    def mentions_of(self, entity: EntityId, limit: int) -> document_reader.MentionsOf:
        """How many mentions of all documents mean an entity, and the first of them."""
        with self._db.read() as connection:
            return document_reader.read_mentions_of(connection, entity, limit)

    def mappings(self, kb: str) -> Iterator[CodeMapping]:
        """All mappings between codes that a KB brought, in the order of their codes."""
        return self._stream(document_reader.read_mappings, kb)

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

    # ---------------------------------------------------------------------------- overlaps
    def save_overlaps(
        self,
        left: str,
        right: str,
        overlaps: Iterable[Overlap],
        run: OverlapRun | Callable[[int], OverlapRun | None] | None = None,
    ) -> int:
        """Replace all overlaps of two KBs at once; pairs that people judged stay as judged.

        ``run`` is kept with them. It may be a function that makes it: it is given the number of
        ``overlaps`` when they have come to their end and nobody else may write. If it makes none,
        the last run of the two is forgotten.
        """
        return self._overlaps.save(left, right, overlaps, run)

    def overlap_runs(self) -> list[OverlapRun]:
        """The last run of each two KBs, their names in the order of the alphabet."""
        return read_runs(self._db)

    def overlap_state(self) -> str:
        """A text that is another one after every change of an overlap or verdict."""
        return read_state(self._db)

    def overlaps(
        self,
        left: str | None = None,
        right: str | None = None,
        *,
        min_probability: float = 0.0,
        verdict: Verdict | None = None,
        judged: bool | None = None,
        stale: bool | None = None,
    ) -> Iterator[Overlap]:
        """Overlaps of all KBs, of one, or of two, in the order of their names.

        Those of ``left`` have it on their left side, those of ``right`` on their right. With a
        ``verdict`` only those of which it was said; ``judged`` and ``stale``: only those that
        are so, or (False) are not.
        """
        wanted = Wanted(verdict, judged, stale)
        return self._overlaps.read(left, right, min_probability, wanted)

    def overlap(self, left: EntityId, right: EntityId) -> Overlap | None:
        """The overlap of two entities; None where there is none."""
        return self._overlaps.one(left, right)

    def overlaps_of(self, entity: EntityId) -> list[Overlap]:
        """All overlaps of one entity, which stands on the left, the surest first."""
        return self._overlaps.of(entity)

    def counterparts(
        self, ids: Iterable[EntityId], *, min_probability: float = 0.5
    ) -> dict[EntityId, tuple[EntityId, ...]]:
        """The same things in other KBs, the surest first, for each id that has any.

        A pair judged wrong is none whatever its probability, one judged correct always is.
        """
        return self._overlaps.counterparts(ids, min_probability)

    def set_verdict(
        self, left: EntityId, right: EntityId, verdict: Verdict | None, source: str = "review"
    ) -> None:
        """Set or clear what people say of a pair of entities as they are now."""
        judge(self._db, [(left, right, verdict)], source)

    def set_verdicts(
        self,
        judged: Iterable[tuple[EntityId, EntityId, Verdict | None]],
        source: str = "review",
    ) -> int:
        """Set or clear many verdicts, batch by batch; says how many there were."""
        return judge(self._db, judged, source)

    def judgement(self, left: EntityId, right: EntityId) -> Judgement | None:
        """What stands as said of a pair, with where it comes from and what it was judged by."""
        return judgement_of(self._db, left, right)

    def put_back(self, left: EntityId, right: EntityId, before: Judgement | None) -> None:
        """Let stand of a pair what `judgement` said before; None: nothing."""
        put_back(self._db, left, right, before)

    # ------------------------------------------------------------------------------ health
    def check(self) -> list[str]:
        """What is broken or left unfinished; an empty list for a healthy store."""
        return find_problems(self._db)

    # ------------------------------------------------------------------------------ memory
    def learn(
        self,
        sources: Mapping[str, str],
        unmarked: Unmarked = nothing_unmarked,
        *,
        forgotten: Collection[str] = (),
        progress: OnProgress = lambda _: None,
    ) -> None:
        """Remember what surfaces mean in the documents of some sources, each of one split.

        An empty split is train, or all where there is none. ``unmarked`` finds what looks like
        mentions and is none. ``forgotten`` are sources of memory that leave it. All others are
        counted anew: the order in which sources come and go changes nothing.
        """
        self._memory.learn(sources, unmarked, forgotten=forgotten, progress=progress)

    def learnt(self) -> list[Learnt]:
        """The sources that memory was learnt from, by their names."""
        return self._memory.learnt()

    def learning_split(self, kb: str, split: str) -> str | None:
        """The split that is learnt from; of none named train, or all where there is none."""
        with self._db.read() as connection:
            return document_reader.learning_split(connection, kb, split)

    def memory_state(self) -> str:
        """Another text after every change of the memory."""
        return self._memory.state()

    def all_meanings(self) -> Iterator[Meaning]:
        """Everything that surfaces meant, in the order of the surfaces."""
        return self._memory.all()

    def remembered_surfaces(self, most: int) -> list[tuple[str, str, str]]:
        """The surfaces that most often meant an entity: the key, the folded words, a spelling."""
        return self._memory.surfaces(most)

    def memory_kbs(self) -> dict[str, float]:
        """The KBs whose entities were meant, and by how many mentions."""
        return self._memory.kbs()

    def memory_sources(self) -> dict[str, int]:
        """The sources that were learnt from, and how many surfaces each told."""
        return self._memory.sources()

    def meanings(self, keys: Iterable[str]) -> Mapping[str, list[Meaning]]:
        """What surfaces with these keys (`kglink.text.name_words.name_key`) meant."""
        return self._memory.meanings(keys)

    def memory_without(self, documents: Iterable[Document]) -> PartOfMemory:
        """The memory without what some documents say."""
        return PartOfMemory(self._memory, documents)
