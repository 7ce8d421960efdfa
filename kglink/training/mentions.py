"""Annotated mentions as token ids on disk: those to learn from, and those to choose by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kglink.files.tables import IntArray, RowTable, RowWriter
from kglink.models.inputs import Inputs, MentionText
from kglink.plugins import RowRange
from kglink.records import Document, OnProgress, Progress
from kglink.store import Store
from kglink.training.documents import Splits, sources_of_documents, splits_of
from kglink.training.names import write_names
from kglink.training.pool import EntityPool, chunks
from kglink.training.recipe import SelectionSection
from kglink.training.tables import token_table, token_writer

_DOCUMENTS = 256
TRAIN, VALID = "train", "valid"


class MentionTable:
    """Mentions with their golds, which are rows of the pool in ascending order."""

    def __init__(self, folder: Path, part: str) -> None:
        self.tokens = token_table(folder / f"{part}-mentions")
        self.golds = RowTable(folder / f"{part}-golds", np.int64)

    def __len__(self) -> int:
        return len(self.tokens)

    def gold_sets(self, mentions: Sequence[int]) -> list[frozenset[int]]:
        """All golds of some mentions."""
        return [frozenset(self.golds[mention].tolist()) for mention in mentions]

    def within(self, rows: RowRange) -> IntArray:
        """The mentions that have a gold among these rows of the pool."""
        return self.golds.with_any(rows.start, rows.stop)


class MentionCounts(NamedTuple):
    """What was read of a source of documents."""

    documents: str
    split: str
    train: int
    valid: int
    outside: int
    """Mentions whose golds are in none of the KBs of the pool."""


class _Parts(NamedTuple):
    tokens: RowWriter
    golds: RowWriter


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
    """Read the mentions of annotated documents; returns their counts, that of names, a digest.

    ``with_names`` puts the names of all entities behind the mentions to learn from.

    Of each source the split ``train`` is learnt from; a source without splits wholly. By the
    split ``dev`` the best epoch is chosen, or else by documents that are held out.
    """
    with ExitStack() as opened:
        writers = {
            part: _Parts(
                opened.enter_context(token_writer(folder / f"{part}-mentions")),
                opened.enter_context(RowWriter(folder / f"{part}-golds", np.int64)),
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
        named = write_names(folder, store, pool, inputs, *learnt, progress) if with_names else 0
        digests = [writer.digest for parts in writers.values() for writer in parts]
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
        for chunk in chunks(self._store.documents(name, splits.train), _DOCUMENTS):
            kept_back = [splits.is_held_out(document) for document in chunk]
            for part, wanted in ((TRAIN, False), (VALID, True)):
                documents = [
                    one for one, back in zip(chunk, kept_back, strict=True) if back is wanted
                ]
                outside += self._keep(part, documents)
            self._tell(len(chunk))
        if splits.dev:
            for chunk in chunks(self._store.documents(name, "dev"), _DOCUMENTS):
                self._keep(VALID, chunk)
                self._tell(len(chunk))
        added = {part: len(parts.tokens) - before[part] for part, parts in self._writers.items()}
        return MentionCounts(name, splits.train, added[TRAIN], added[VALID], outside)

    def _tell(self, documents: int) -> None:
        self._done += documents
        self._progress(Progress("reading documents", self._done, self._documents))

    def _keep(self, part: str, documents: Sequence[Document]) -> int:
        """Write the mentions with golds in the pool; says how many have theirs elsewhere."""
        texts, golds, outside = [], [], 0
        for text, rows in self._annotated(documents):
            outside += not rows
            if rows:
                texts.append(text)
                golds.append(rows)
        writers = self._writers[part]
        for ids, rows in zip(self._inputs.mentions(texts), golds, strict=True):
            writers.tokens.add(ids)
            writers.golds.add(rows)
        return outside

    def _annotated(self, documents: Sequence[Document]) -> Iterator[tuple[MentionText, list[int]]]:
        for document in documents:
            for mention in document.mentions:
                if mention.gold:
                    rows = {self._pool.row(gold) for gold in mention.gold} - {-1}
                    whole = MentionText(document.text, mention.start, mention.end)
                    yield whole.near(self._inputs.settings.mention_tokens), sorted(rows)
