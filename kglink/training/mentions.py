"""Mentions and names as token ids on disk: those to learn from, and those to choose by.

A name is learnt as a mention without a text around it. All entities that bear it are its golds,
so that none of them is a negative of it.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.files.tables import IntArray, RowTable, RowWriter, StringTable, StringWriter
from kglink.models.inputs import Inputs
from kglink.plugins import RowRange
from kglink.records import Document, Entity, MentionInText, OnProgress, Progress
from kglink.store import Store
from kglink.text.fold import fold
from kglink.training.documents import Splits, sources_of_documents, splits_of
from kglink.training.pool import EntityPool, chunks, token_table, token_writer
from kglink.training.recipe import SelectionSection

_DOCUMENTS = 256
TRAIN, VALID = "train", "valid"


class MentionTable:
    """Mentions with their golds, which are rows of the pool in ascending order."""

    def __init__(self, folder: Path, part: str) -> None:
        self.tokens = token_table(folder / f"{part}-mentions")
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


class _Parts(NamedTuple):
    tokens: RowWriter
    golds: RowWriter
    surfaces: StringWriter


def write_mentions(
    folder: Path,
    store: Store,
    pool: EntityPool,
    inputs: Inputs,
    selection: SelectionSection,
    seed: int,
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
    with ExitStack() as opened:
        writers = {
            part: _Parts(
                opened.enter_context(token_writer(folder / f"{part}-mentions")),
                opened.enter_context(RowWriter(folder / f"{part}-golds", np.int64)),
                opened.enter_context(StringWriter(folder / f"{part}-surfaces")),
            )
            for part in (TRAIN, VALID)
        }
        splits = {
            name: splits_of(store, name, selection, seed)
            for name in sources_of_documents(store, docs)
        }
        total = sum(
            store.count_documents(name, split)
            for name, one in splits.items()
            for split in (one.train, *(["dev"] if one.dev else []))
        )
        reader = _Reader(store, pool, inputs, writers, total, progress)
        counts = [reader.read(name, one) for name, one in splits.items()]
        learnt = writers[TRAIN]
        named = write_names(folder, store, pool, inputs, learnt, progress) if with_names else 0
        digests = [one.digest for parts in writers.values() for one in (parts.tokens, parts.golds)]
    return counts, named, hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


class _Reader:
    def __init__(
        self,
        store: Store,
        pool: EntityPool,
        inputs: Inputs,
        writers: dict[str, _Parts],
        documents: int,
        progress: OnProgress,
    ) -> None:
        self._store = store
        self._pool = pool
        self._inputs = inputs
        self._writers = writers
        self._documents = documents
        self._done = 0
        self._progress = progress

    def read(self, name: str, splits: Splits) -> MentionCounts:
        before = {part: len(parts.tokens) for part, parts in self._writers.items()}
        outside = 0
        for chunk in chunks(splits.divided(self._store), _DOCUMENTS):
            for part, wanted in ((TRAIN, False), (VALID, True)):
                documents = [one for one, held_back in chunk if held_back is wanted]
                outside += self._keep(part, documents)
            self._tell(len(chunk))
        added = {part: len(parts.tokens) - before[part] for part, parts in self._writers.items()}
        return MentionCounts(name, splits.train, added[TRAIN], added[VALID], outside)

    def _tell(self, documents: int) -> None:
        self._done += documents
        self._progress(Progress("reading documents", self._done, self._documents))

    def _keep(self, part: str, documents: Sequence[Document]) -> int:
        """Write the mentions with golds in the pool; returns how many have theirs elsewhere."""
        texts, golds, outside = [], [], 0
        for text, rows in self._annotated(documents):
            outside += not rows
            if rows:
                texts.append(text)
                golds.append(rows)
        writers = self._writers[part]
        for text, ids, rows in zip(texts, self._inputs.mentions(texts), golds, strict=True):
            writers.tokens.add(ids)
            writers.golds.add(rows)
            writers.surfaces.add(text.surface)
        return outside

    def _annotated(
        self, documents: Sequence[Document]
    ) -> Iterator[tuple[MentionInText, list[int]]]:
        for document in documents:
            for mention in document.mentions:
                if mention.gold:
                    rows = {self._pool.row(gold) for gold in mention.gold} - {-1}
                    yield MentionInText(document.text, mention.start, mention.end), sorted(rows)


_CHUNK = 4096


def write_names(
    folder: Path,
    store: Store,
    pool: EntityPool,
    inputs: Inputs,
    learnt: _Parts,
    progress: OnProgress = lambda _: None,
) -> int:
    """Append each name once, in order of first appearance; returns how many."""
    hashes, rows = array("Q"), array("q")
    with StringWriter(folder / "names") as surfaces:
        for row, surface in _named(store, pool):
            hashes.append(_name_hash(surface))
            rows.append(row)
            surfaces.add(surface)
    texts = StringTable(folder / "names")
    bearers = _bearers(np.frombuffer(hashes, np.uint64), np.frombuffer(rows, np.int64))
    written = 0
    for chunk in chunks(bearers, _CHUNK):
        names = [texts[first] for first, _ in chunk]
        mentions = [MentionInText(name, 0, len(name)) for name in names]
        for name, ids, (_, entities) in zip(names, inputs.mentions(mentions), chunk, strict=True):
            learnt.tokens.add(ids)
            learnt.golds.add(entities)
            learnt.surfaces.add(name)
        written += len(chunk)
        progress(Progress("reading names", written))
    return written


def _named(store: Store, pool: EntityPool) -> Iterator[tuple[int, str]]:
    """Row and surface of every name; each name once for an entity."""
    for kb in pool.kbs:
        for row, entity in enumerate(store.entities(kb.name), kb.start):
            for surface in dict.fromkeys(_surfaces(entity)):
                yield row, surface


def _surfaces(entity: Entity) -> Iterable[str]:
    yield entity.title
    for alias in entity.aliases:
        if alias.surface.strip():
            yield alias.surface


def _bearers(hashes: npt.NDArray[np.uint64], rows: IntArray) -> Iterator[tuple[int, IntArray]]:
    """For each name, where it first appears, and the rows of all entities that bear it."""
    order = np.lexsort((np.arange(len(hashes)), hashes))
    starts = np.flatnonzero(np.diff(hashes[order], prepend=~hashes[order[:1]]))
    stops = np.append(starts[1:], len(order))
    firsts = order[starts]
    for group in np.argsort(firsts, kind="stable"):
        yield int(firsts[group]), np.unique(rows[order[starts[group] : stops[group]]])


def _name_hash(surface: str) -> int:
    return text_hash(fold(surface) or surface)
