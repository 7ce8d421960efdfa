"""What a run learns from, prepared once: entities, mentions and overlaps as numbers on disk.

All entities of a run's KBs are its pool: KBs stand in the order in which they were named, sources
first, entities in the order of their keys. The number of an entity in the pool is its row.

A name is learnt as a mention without a text around it. All entities that bear it are its golds,
so that none of them is a negative of it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import combinations, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from kglink.arrays import IntArray
from kglink.files.atomic import write_atomically
from kglink.files.digest import text_hash
from kglink.files.tables import (
    RowTable,
    RowWriter,
    StringTable,
    StringWriter,
    map_array,
    write_rows,
)
from kglink.models.inputs import IdArray, Inputs
from kglink.plugins import RowRange
from kglink.records import Document, EntityId, MentionInText, OnProgress, Progress
from kglink.store import Store
from kglink.text.fold import fold
from kglink.training.documents import sources_of_documents, splits_of
from kglink.training.recipe import Recipe, SelectionSection
from kglink.training.run import DATA_FILE

#: The folder of the texts as a teacher reads them.
TEACHER = "teacher"
TRAIN, VALID = "train", "valid"
#: What is read between two notes of progress.
_ENTITIES, _DOCUMENTS, _NAMES = 2048, 256, 4096

Item = TypeVar("Item")


class KBChoice(NamedTuple):
    """Source and target KBs of a run."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """All KBs, in the order of the pool."""
        return (*self.sources, *self.targets)

    def of(self, letter: str) -> tuple[str, ...]:
        """The KBs whose mentions stage S, or T, learns from."""
        return self.sources if letter == "S" else self.targets


class TrainingData:
    """The prepared data of a run."""

    def __init__(self, folder: Path) -> None:
        facts = json.loads((folder / DATA_FILE).read_text(encoding="utf-8"))
        self.fingerprints: dict[str, Any] = facts
        self.kbs = KBChoice(tuple(facts["source_kbs"]), tuple(facts["target_kbs"]))
        self.pool = EntityPool(folder, [PooledKB(**kb) for kb in facts["kbs"]])
        self.counts = [MentionCounts(**one) for one in facts["documents"]]
        self.train = MentionTable(folder, TRAIN)
        self.annotated = len(self.train) - int(facts["names"])
        """Mentions of documents stand before names."""
        self.valid = MentionTable(folder, VALID)
        self.pairs: IntArray = map_array(folder / "pairs.npy")
        self._counterparts = RowTable(folder / "counterparts", np.int64)

    def counterparts(self, rows: Sequence[int] | frozenset[int]) -> frozenset[int]:
        """Entities of other KBs that are the same thing."""
        return frozenset(other for row in rows for other in self._counterparts[row].tolist())


def prepare(
    folder: Path,
    store: Store,
    recipe: Recipe,
    kbs: KBChoice,
    inputs: Inputs,
    *,
    docs: Sequence[str] = (),
    teacher: Inputs | None = None,
    progress: OnProgress = lambda _: None,
) -> TrainingData:
    """Read entities, mentions and overlaps from the store; replaces what is in the folder.

    ``teacher``: entities and mentions are also written as a teacher reads them, in ``teacher/``.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with store.snapshot() as seen:
        pooled = write_pool(folder, seen, kbs.all, inputs, recipe.domain, progress)
        pool = EntityPool(folder, pooled)
        counts, names, digest = write_mentions(
            *(folder, seen, pool, inputs, recipe.selection),
            docs=docs,
            with_names=recipe.learns_names,
            progress=progress,
        )
        if teacher is not None:
            own = folder / TEACHER
            own.mkdir()
            write_pool(own, seen, kbs.all, teacher, recipe.domain, progress)
            write_mentions(own, seen, pool, teacher, recipe.selection, docs=docs, progress=progress)
        overlaps = _write_overlaps(folder, seen, pool, kbs, recipe.overlap.min_probability)
    facts = {
        "source_kbs": kbs.sources,
        "target_kbs": kbs.targets,
        "kbs": [kb._asdict() for kb in pooled],
        "documents": [one._asdict() for one in counts],
        "names": names,
        "mentions": digest,
        "overlaps": overlaps,
    }
    write_atomically(folder / DATA_FILE, json.dumps(facts, indent=1))
    return TrainingData(folder)


def _write_overlaps(
    folder: Path, store: Store, pool: EntityPool, kbs: KBChoice, least: float
) -> str:
    """Write the accepted pairs and the counterparts of each row; returns a digest.

    Counterparts are two steps away, too: two targets are never compared, but what both have in
    common with a source is the same thing.
    """
    found = [
        (pool.row(overlap.left), pool.row(overlap.right))
        for left, right in combinations(kbs.all, 2)
        for overlap in store.overlaps(left, right)
        if overlap.is_accepted(least)
    ]
    known = sorted(pair for pair in found if min(pair) >= 0)
    pairs = np.array(known, np.int64).reshape(-1, 2)
    first_target = pool.kb(kbs.targets[0]).start if kbs.targets else len(pool)
    between = (pairs[:, 0] < first_target) & (pairs[:, 1] >= first_target)
    np.save(folder / "pairs.npy", pairs[between])
    both = np.concatenate([pairs, pairs[:, ::-1]])
    direct = csr_matrix(
        (np.ones(len(both), np.bool_), (both[:, 0], both[:, 1])), shape=(len(pool), len(pool))
    )
    left, right = (direct + direct @ direct).nonzero()
    starts = [pool.kb(kb).start for kb in kbs.all]
    other_kb = np.digitize(left, starts) != np.digitize(right, starts)
    left, right = left[other_kb], right[other_kb]
    order = np.lexsort((right, left))
    bounds = np.searchsorted(left[order], np.arange(len(pool) + 1))
    write_rows(folder / "counterparts", right[order].astype(np.int64), bounds)
    return hashlib.sha256(pairs.tobytes()).hexdigest()[:16]


# ----------------------------------------------------------------------------------------- entities
class PooledKB(NamedTuple):
    """A KB in the pool: its rows, and its state when it was read."""

    name: str
    start: int
    stop: int
    described: int
    revision: int
    digest: str


class EntityPool:
    """All entities of the run's KBs."""

    def __init__(self, folder: Path, kbs: Sequence[PooledKB]) -> None:
        self.kbs = tuple(kbs)
        self.tokens = RowTable(folder / "pool-texts", np.int32)
        self.domains: IntArray = map_array(folder / "pool-domains.npy")
        self._keys = StringTable(folder / "pool-keys")
        self.titles = StringTable(folder / "pool-titles")
        self._by_name = {kb.name: kb for kb in kbs}

    def __len__(self) -> int:
        return len(self.tokens)

    def kb(self, name: str) -> PooledKB:
        """A KB by its name."""
        return self._by_name[name]

    def rows(self, names: Iterable[str]) -> RowRange:
        """The rows of adjacent KBs."""
        kbs = [self._by_name[name] for name in names]
        return RowRange(min(kb.start for kb in kbs), max(kb.stop for kb in kbs))

    def row(self, name: EntityId) -> int:
        """The row of an entity; -1 if the pool lacks it."""
        kb = self._by_name.get(name.kb)
        if kb is None:
            return -1
        at = bisect_left(self._keys, name.key, kb.start, kb.stop)
        return at if at < kb.stop and self._keys[at] == name.key else -1

    @property
    def domain_count(self) -> int:
        """How many domains there are."""
        return int(self.domains.max()) + 1 if len(self.domains) else 0


def write_pool(
    folder: Path,
    store: Store,
    names: Sequence[str],
    inputs: Inputs,
    domain: Literal["kb", "type"],
    progress: OnProgress = lambda _: None,
) -> list[PooledKB]:
    """Write the token ids, keys, titles and domains of the entities of these KBs."""
    kbs: list[PooledKB] = []
    numbers: dict[tuple[str, str], int] = {}
    domains: list[IntArray] = []
    total = sum(store.kb(name).entities for name in names)
    with (
        StringWriter(folder / "pool-keys") as keys,
        StringWriter(folder / "pool-titles") as titles,
        RowWriter(folder / "pool-texts", np.int32) as tokens,
    ):
        for name in names:
            start, described, revision = len(tokens), 0, store.kb(name).revision
            for entities in chunks(store.entities(name), _ENTITIES):
                for entity, ids in zip(entities, inputs.entities(entities), strict=True):
                    keys.add(entity.key)
                    titles.add(entity.title)
                    tokens.add(ids)
                places = [(name, one.type if domain == "type" else "") for one in entities]
                own = [numbers.setdefault(place, len(numbers)) for place in places]
                domains.append(np.array(own, np.int64))
                described += sum(bool(entity.description.strip()) for entity in entities)
                progress(Progress("reading entities", len(tokens), total))
            stop = len(tokens)
            kbs.append(PooledKB(name, start, stop, described, revision, tokens.digest))
    whole = np.concatenate(domains) if domains else np.empty(0, np.int64)
    np.save(folder / "pool-domains.npy", whole)
    return kbs


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of at most ``size`` items."""
    waiting = iter(items)
    while chunk := list(islice(waiting, size)):
        yield chunk


def as_ids(rows: Iterable[npt.NDArray[Any]]) -> list[IdArray]:
    """Rows as token ids."""
    return [np.asarray(row, np.int32) for row in rows]


# ----------------------------------------------------------------------------------------- mentions
class MentionTable:
    """Mentions with their golds, which are rows of the pool in ascending order."""

    def __init__(self, folder: Path, part: str) -> None:
        self.tokens = RowTable(folder / f"{part}-mentions", np.int32)
        self.golds = RowTable(folder / f"{part}-golds", np.int64)
        self.surfaces = StringTable(folder / f"{part}-surfaces")

    def __len__(self) -> int:
        return len(self.tokens)

    def gold_sets(self, mentions: Sequence[int]) -> list[frozenset[int]]:
        """All golds of some mentions."""
        return [frozenset(self.golds[mention].tolist()) for mention in mentions]

    def within(self, rows: RowRange) -> IntArray:
        """The mentions that have a gold among these rows of the pool."""
        return self.golds.with_any(rows.start, rows.stop)


class MentionCounts(NamedTuple):
    """Counts of one source of documents."""

    documents: str
    split: str
    train: int
    valid: int
    outside: int
    """Mentions with golds outside of the pool."""


class _Writers(NamedTuple):
    """Where mentions are written, with their golds."""

    tokens: RowWriter
    golds: RowWriter
    surfaces: StringWriter

    def add(
        self, inputs: Inputs, mentions: Sequence[MentionInText], golds: Iterable[npt.ArrayLike]
    ) -> None:
        """Write some mentions."""
        for mention, ids, rows in zip(mentions, inputs.mentions(mentions), golds, strict=True):
            self.tokens.add(ids)
            self.golds.add(rows)
            self.surfaces.add(mention.surface)


def write_mentions(
    folder: Path,
    store: Store,
    pool: EntityPool,
    inputs: Inputs,
    selection: SelectionSection,
    *,
    docs: Sequence[str] = (),
    with_names: bool = False,
    progress: OnProgress = lambda _: None,
) -> tuple[list[MentionCounts], int, str]:
    """Write the mentions of annotated documents; returns counts, the number of names, a digest.

    ``with_names`` appends the names of all entities to the training mentions.

    Training uses the split ``train``, or all documents of a source without splits. The best epoch
    is chosen by the split ``dev``, or by documents that are held out.
    """
    splits = [splits_of(store, name, selection) for name in sources_of_documents(store, docs)]
    total = sum(
        store.count_documents(one.source, split)
        for one in splits
        for split in (one.train, *(["dev"] if one.dev else []))
    )
    counts, done = [], 0
    with ExitStack() as opened:
        learnt, held_out = (
            _Writers(
                opened.enter_context(RowWriter(folder / f"{part}-mentions", np.int32)),
                opened.enter_context(RowWriter(folder / f"{part}-golds", np.int64)),
                opened.enter_context(StringWriter(folder / f"{part}-surfaces")),
            )
            for part in (TRAIN, VALID)
        )
        for one in splits:
            before, outside = (len(learnt.tokens), len(held_out.tokens)), 0
            for chunk in chunks(one.divided(store), _DOCUMENTS):
                for writers, wanted in ((learnt, False), (held_out, True)):
                    known = [
                        (mention, rows)
                        for document, held_back in chunk
                        if held_back is wanted
                        for mention, rows in _annotated(document, pool)
                    ]
                    inside = [(mention, rows) for mention, rows in known if rows]
                    outside += len(known) - len(inside)
                    writers.add(inputs, [one for one, _ in inside], [rows for _, rows in inside])
                done += len(chunk)
                progress(Progress("reading documents", done, total))
            new = len(learnt.tokens) - before[0], len(held_out.tokens) - before[1]
            counts.append(MentionCounts(one.source, one.train, *new, outside))
        named = write_names(folder, store, pool, inputs, learnt, progress) if with_names else 0
        tables = (learnt.tokens, learnt.golds, held_out.tokens, held_out.golds)
        digests = "".join(table.digest for table in tables)
    return counts, named, hashlib.sha256(digests.encode()).hexdigest()[:16]


def _annotated(document: Document, pool: EntityPool) -> Iterator[tuple[MentionInText, list[int]]]:
    """The mentions with golds, and the rows of these in the pool; none: they are elsewhere."""
    for mention in document.mentions:
        if mention.gold:
            rows = {pool.row(gold) for gold in mention.gold} - {-1}
            yield MentionInText(document.text, mention.start, mention.end), sorted(rows)


def write_names(
    folder: Path,
    store: Store,
    pool: EntityPool,
    inputs: Inputs,
    learnt: _Writers,
    progress: OnProgress = lambda _: None,
) -> int:
    """Append each name once, in order of first appearance; returns how many."""
    hashes, rows = array("Q"), array("q")
    with StringWriter(folder / "names") as surfaces:
        for kb in pool.kbs:
            for row, entity in enumerate(store.entities(kb.name), kb.start):
                aliases = [one.surface for one in entity.aliases if one.surface.strip()]
                for name in dict.fromkeys([entity.title, *aliases]):
                    hashes.append(text_hash(fold(name) or name))
                    rows.append(row)
                    surfaces.add(name)
    texts = StringTable(folder / "names")
    bearers = _bearers(np.frombuffer(hashes, np.uint64), np.frombuffer(rows, np.int64))
    written = 0
    for chunk in chunks(bearers, _NAMES):
        mentions = [MentionInText(texts[first], 0, len(texts[first])) for first, _ in chunk]
        learnt.add(inputs, mentions, [entities for _, entities in chunk])
        written += len(chunk)
        progress(Progress("reading names", written))
    return written


def _bearers(hashes: npt.NDArray[np.uint64], rows: IntArray) -> Iterator[tuple[int, IntArray]]:
    """For each name, where it first appears, and the rows of all entities that bear it."""
    order = np.lexsort((np.arange(len(hashes)), hashes))
    starts = np.flatnonzero(np.diff(hashes[order], prepend=~hashes[order[:1]]))
    stops = np.append(starts[1:], len(order))
    firsts = order[starts]
    for group in np.argsort(firsts, kind="stable"):
        yield int(firsts[group]), np.unique(rows[order[starts[group] : stops[group]]])
