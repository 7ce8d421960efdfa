"""Negatives from the pool: drawn anew for each batch, or looked for with the model as it is.

Samplers that compare vectors are asked once for all mentions, at the refresh points, and what
they choose is kept on disk: a run that goes on finds it there, whatever the model is by then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kglink.encoding.tokenise import IdArray
from kglink.protocols import RowRange, Sampler, SamplerBatch, SamplerPool
from kglink.space.strings import map_array
from kglink.training.collate import choose_golds
from kglink.training.data import TrainingData
from kglink.training.frozen import FloatArray, FrozenPool
from kglink.training.plan import Group
from kglink.training.recipe import StageSection
from kglink.training.tables import IntArray, as_ids

#: Mentions that a sampler compares with the pool at once, by vectors and by scores.
_BY_VECTORS, _BY_SCORES = 1024, 64


class _Query(NamedTuple):
    """Mentions to find negatives for."""

    numbers: IntArray
    """Their numbers in the group."""
    golds: IntArray
    excluded: Sequence[frozenset[int]]


class Negatives:
    """Gives the mentions of a group their negatives."""

    def __init__(
        self, data: TrainingData, group: Group, section: StageSection, sampler: Sampler
    ) -> None:
        self._data = data
        self._k = section.negatives
        self._sampler = sampler
        self._group = group
        everything = RowRange(0, len(data.pool))
        self._rows = everything if section.negatives_from == "all" else group.rows
        self._mined: IntArray | None = None

    @property
    def are_mined(self) -> bool:
        """Whether they are looked for with the model."""
        return self._k > 0 and bool(getattr(self._sampler, "needs_vectors", False))

    def of(
        self,
        mentions: IntArray,
        golds: IntArray,
        excluded: Sequence[frozenset[int]],
        rng: np.random.Generator,
    ) -> IntArray:
        """The negatives of some mentions as rows of the pool, (mentions, k); -1: none left."""
        if not self._k:
            return np.empty((len(mentions), 0), np.int64)
        if self._mined is not None:
            return np.asarray(self._mined[np.searchsorted(self._group.items, mentions)])
        pool = SamplerPool(self._domains(self._rows))
        return self._ask(pool, _batch(golds, excluded, self._rows), rng, self._rows)

    def mine(self, pool: FrozenPool, path: Path, rng: np.random.Generator) -> None:
        """Look for the negatives of all mentions, and keep them in a file."""
        golds, excluded = choose_golds(self._data, self._group.rows, self._group.items)
        found = np.full((len(golds), self._k), -1, np.int64)
        for numbers, rows in self._searches(golds):
            own = [excluded[number] for number in numbers.tolist()]
            query = _Query(numbers, golds[numbers], own)
            for part, drawn in self._search(pool, query, rows, rng):
                found[numbers[part]] = drawn
        draft = path.with_name(f".{path.name}.draft")
        with draft.open("wb") as out:
            np.save(out, found)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(path)

    def open(self, path: Path) -> None:
        """Use what was looked for."""
        self._mined = map_array(path)

    def _searches(self, golds: IntArray) -> Iterator[tuple[IntArray, RowRange]]:
        """Numbers of mentions, and the rows that they are compared with.

        A sampler that stays in the domain is not shown other KBs, which would be time for nothing.
        """
        numbers = np.arange(len(golds))
        if not getattr(self._sampler, "in_domain", False):
            yield numbers, self._rows
            return
        for kb in self._data.pool.kbs:
            inside = numbers[(golds >= kb.start) & (golds < kb.stop)]
            if len(inside):
                yield inside, kb.rows

    def _search(
        self, pool: FrozenPool, query: _Query, rows: RowRange, rng: np.random.Generator
    ) -> Iterator[tuple[slice, IntArray]]:
        mentions = self._group.items[query.numbers].tolist()
        texts = as_ids(self._data.train.tokens.take(mentions))
        domains = self._domains(rows)
        for part, queries, candidates in _compared(pool, texts, rows):
            batch = _batch(query.golds[part], query.excluded[part], rows)
            asked = batch._replace(vectors=queries)
            yield part, self._ask(SamplerPool(domains, candidates), asked, rng, rows)

    def _ask(
        self, pool: SamplerPool, batch: SamplerBatch, rng: np.random.Generator, rows: RowRange
    ) -> IntArray:
        drawn = self._sampler.sample(pool, batch, self._k, rng)
        return np.where(drawn >= 0, drawn + rows.start, -1)

    def _domains(self, rows: RowRange) -> IntArray:
        return self._data.pool.domains[rows.start : rows.stop]


def _compared(
    pool: FrozenPool, texts: Sequence[IdArray], rows: RowRange
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Parts of the mentions, with vectors of theirs and of all rows whose product is the score."""
    vectors = pool.vectors(rows)
    if vectors is not None:
        for first in range(0, len(texts), _BY_VECTORS):
            part = slice(first, first + _BY_VECTORS)
            yield part, pool.mention_vectors(texts[part]), vectors
        return
    for part, scores in pool.scores(texts, rows, most=_BY_SCORES):
        # The score of mention i as a product: unit vector i with the column of scores.
        yield part, np.eye(len(scores), dtype=np.float32), np.ascontiguousarray(scores.T)


def _batch(
    golds: IntArray, excluded: Sequence[frozenset[int]], rows: RowRange
) -> SamplerBatch:
    """What samplers are told, in rows that count from the first of ``rows``."""
    start, stop = rows
    gold = [frozenset({int(one) - start}) for one in golds]
    others = [frozenset(one - start for one in own if start <= one < stop) for own in excluded]
    return SamplerBatch(gold, excluded=others)
