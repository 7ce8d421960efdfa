"""The contract of samplers of negatives: never gold, distinct, complete, and seeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kglink.protocols import Sampler, SamplerBatch, SamplerPool
from kglink.testing.contracts.base import PluginContract

if TYPE_CHECKING:
    from kglink.protocols import FloatArray, IntArray

DIM = 8


class SamplerContract(PluginContract):
    """Every draw is a set of negatives that a brute-force count agrees with."""

    kind = "sampler"
    stochastic: bool = True
    """Whether another seed draws other rows; False where the rows follow from the vectors."""
    needs_vectors: bool = False
    """Whether it can draw only where the pool and the batch have vectors."""

    def make(self) -> Sampler:
        """The sampler under test."""
        sampler: Sampler = self.create()
        return sampler

    def eligible(self, pool: SamplerPool, gold: frozenset[int]) -> set[int]:
        """The rows that may be drawn for a mention; override it for a sampler that is choosy."""
        return set(range(len(pool.domains))) - gold

    def test_draws_distinct_rows_that_are_never_gold(self) -> None:
        for pool, batch in self._cases():
            for k in (1, 4, 16):
                for drawn, gold in self._rows(pool, batch, k):
                    assert set(drawn) <= set(range(len(pool.domains))), "no row of the pool"
                    assert not set(drawn) & gold, "gold was drawn"
                    assert len(drawn) == len(set(drawn)), "a row was drawn twice"

    def test_draws_all_that_is_asked_or_left(self) -> None:
        for pool, batch in self._cases():
            if self.generic and len(set(pool.domains.tolist())) > 1:
                continue  # nobody said which domains it draws from
            for k in (1, 5, 11, 40):
                for drawn, gold in self._rows(pool, batch, k):
                    eligible = self.eligible(pool, gold)
                    assert set(drawn) <= eligible, "a row that is not eligible"
                    assert len(drawn) == min(k, len(eligible))

    def test_same_seed_draws_the_same(self) -> None:
        for pool, batch in self._cases():
            first, second = (self._draw(pool, batch, 4, 7) for _ in range(2))
            assert np.array_equal(first, second)

    def test_another_seed_draws_other_rows_if_stochastic(self) -> None:
        pool, batch = self._large()
        draws = {self._draw(pool, batch, 4, seed).tobytes() for seed in range(5)}
        if not self.generic:
            assert len(draws) == (5 if self.stochastic else 1)

    def test_leaves_its_arguments_alone(self) -> None:
        for pool, batch in self._cases():
            before = _copies(pool.domains, pool.vectors, batch.vectors)
            self._draw(pool, batch, 3, 1)
            after = _copies(pool.domains, pool.vectors, batch.vectors)
            for was, now in zip(before, after, strict=True):
                assert np.array_equal(was, now)

    def test_an_empty_batch_and_an_empty_pool(self) -> None:
        pool, batch = self._large()
        nobody = SamplerBatch([], None if batch.vectors is None else batch.vectors[:0])
        assert self._draw(pool, nobody, 3, 1).shape == (0, 3)
        nothing = SamplerPool(pool.domains[:0], None if pool.vectors is None else pool.vectors[:0])
        nil = SamplerBatch([frozenset()], None if batch.vectors is None else batch.vectors[:1])
        assert self._draw(nothing, nil, 3, 1).tolist() == [[-1, -1, -1]]

    def _draw(self, pool: SamplerPool, batch: SamplerBatch, k: int, seed: int) -> IntArray:
        drawn = self.make().sample(pool, batch, k, np.random.default_rng(seed))
        assert drawn.shape == (len(batch.gold), k)
        assert drawn.dtype == np.int64
        return drawn

    def _rows(
        self, pool: SamplerPool, batch: SamplerBatch, k: int
    ) -> list[tuple[list[int], frozenset[int]]]:
        rows = []
        for row, gold in zip(self._draw(pool, batch, k, k).tolist(), batch.gold, strict=True):
            real = [value for value in row if value != -1]
            assert row == real + [-1] * (k - len(real)), "-1 only at the end"
            rows.append((real, gold))
        return rows

    def _cases(self) -> list[tuple[SamplerPool, SamplerBatch]]:
        """Pools of one domain and of several, with no, one and many right answers."""
        one = [0] * 12
        several = [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 3]
        golds = [frozenset({0}), frozenset({4, 5}), frozenset({11}), frozenset(range(3, 8))]
        with_nil = [*golds, frozenset[int]()]
        cases = [(one, with_nil), (several, golds), (one[:2], [frozenset({1})])]
        return [
            self._case(domains, gold, vectors)
            for domains, gold in cases
            for vectors in (True, False)
            if vectors or not self.needs_vectors
            if vectors or not self.generic
        ]

    def _large(self) -> tuple[SamplerPool, SamplerBatch]:
        return self._case([0] * 500, [frozenset({row}) for row in range(20)], vectors=True)

    @staticmethod
    def _case(
        domains: list[int], gold: list[frozenset[int]], vectors: bool
    ) -> tuple[SamplerPool, SamplerBatch]:
        rng = np.random.default_rng(5)
        rows: FloatArray = rng.normal(size=(len(domains), DIM)).astype(np.float32)
        queries: FloatArray = rng.normal(size=(len(gold), DIM)).astype(np.float32)
        pool = SamplerPool(np.array(domains, np.int64), rows if vectors else None)
        return pool, SamplerBatch(gold, queries if vectors else None)


def _copies(*arrays: IntArray | FloatArray | None) -> list[IntArray | FloatArray]:
    return [array.copy() for array in arrays if array is not None]
