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
from kglink.records import Document, MentionInText, OnProgress, Progress
from kglink.store import Store
from kglink.text.fold import fold
from kglink.training.documents import sources_of_documents, splits_of
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
    splits = [splits_of(store, name, selection, seed) for name in sources_of_documents(store, docs)]
    total = sum(
        store.count_documents(one.source, split)
        for one in splits
        for split in (one.train, *(["dev"] if one.dev else []))
    )
    counts, done = [], 0
    with ExitStack() as opened:
        learnt, held_out = (
            _Writers(
                opened.enter_context(token_writer(folder / f"{part}-mentions")),
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


_CHUNK = 4096


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
    for chunk in chunks(bearers, _CHUNK):
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
