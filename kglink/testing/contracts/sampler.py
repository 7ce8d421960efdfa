"""The contract of samplers of negatives: never a right answer, distinct, complete, and seeded."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kglink.plugins import Encoded, MentionSampler, MixingSampler, SamplerBatch, SamplerPool
from kglink.testing.contracts.base import PluginContract

if TYPE_CHECKING:
    from torch import Tensor

    from kglink.plugins import FloatArray, IntArray, PairScores

DIM = 8


class SamplerContract(PluginContract):
    """Every draw is a set of negatives that a brute-force count agrees with."""

    kind = "sampler"
    stochastic: bool = True
    """Whether another seed draws other rows; False where the rows follow from the vectors."""

    def eligible(self, pool: SamplerPool, batch: SamplerBatch, mention: int) -> set[int]:
        """The rows that may be drawn for a mention; override it for a sampler that is choosy.

        What is forbidden may be among them: it is taken off.
        """
        return set(range(len(pool)))

    def test_draws_distinct_rows_that_are_never_forbidden(self) -> None:
        for pool, batch in self._cases():
            for k in (1, 4, 16):
                for mention, drawn in enumerate(self._rows(pool, batch, k)):
                    assert set(drawn) <= set(range(len(pool))), "no row of the pool"
                    assert not set(drawn) & batch.gold[mention], "gold was drawn"
                    assert not set(drawn) & batch.forbidden(mention), "an excluded row was drawn"
                    assert len(drawn) == len(set(drawn)), "a row was drawn twice"

    def test_draws_all_that_is_asked_or_left(self) -> None:
        for pool, batch in self._cases():
            if self.generic and len(set(pool.domains.tolist())) > 1:
                continue  # nobody said which domains it draws from
            for k in (1, 5, 11, 40):
                for mention, drawn in enumerate(self._rows(pool, batch, k)):
                    eligible = self.eligible(pool, batch, mention) - batch.forbidden(mention)
                    assert set(drawn) <= eligible, "a row that is not eligible"
                    assert len(drawn) == min(k, len(eligible))

    def test_same_seed_draws_the_same(self) -> None:
        for pool, batch in self._cases():
            first, second = (self._draw(pool, batch, 4, 7) for _ in range(2))
            assert np.array_equal(first, second)

    def test_vectors_in_half_precision_draw_the_same(self) -> None:
        # Small whole numbers are the same in all three, and so are their products.
        pool, batch = self._large()
        vectors = np.random.default_rng(6).integers(-9, 9, (len(pool), DIM)).astype(np.float32)
        wide = self._draw(replace(pool, vectors=vectors), batch, 4, 7)
        for kept in (
            vectors.astype(np.float16),
            (vectors.view(np.uint32) >> 16).astype(np.uint16).view(np.int16),
        ):
            assert np.array_equal(self._draw(replace(pool, vectors=kept), batch, 4, 7), wide)

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
        no_vectors = None if batch.vectors is None else batch.vectors[:0]
        nobody = SamplerBatch([], no_vectors, surfaces=[])
        assert self._draw(pool, nobody, 3, 1).shape == (0, 3)
        no_rows = None if pool.vectors is None else pool.vectors[:0]
        nothing = SamplerPool(pool.domains[:0], no_rows, [])
        one_vector = None if batch.vectors is None else batch.vectors[:1]
        nil = SamplerBatch([frozenset()], one_vector, surfaces=["Ada"])
        assert self._draw(nothing, nil, 3, 1).tolist() == [[-1, -1, -1]]

    def test_makes_negatives_of_the_batch_if_it_mixes(self) -> None:
        sampler = self.make()
        if isinstance(sampler, MixingSampler):
            _check_mixing(sampler)

    def test_draws_to_what_means_the_same_if_it_compares_mentions(self) -> None:
        sampler = self.make()
        if isinstance(sampler, MentionSampler):
            _check_among_mentions(sampler)

    def test_scores_in_the_place_of_vectors_draw_the_same_if_it_goes_by_score(self) -> None:
        if not self._goes_by_score:
            return
        for pool, batch in self._cases():
            bare = replace(pool, vectors=None)
            asked = batch._replace(vectors=None, scores=_inner_products(pool, batch))
            for k in (1, 4, 16):
                by_scores = self._draw(bare, asked, k, 7)
                assert np.array_equal(by_scores, self._draw(pool, batch, k, 7))

    @property
    def _goes_by_score(self) -> bool:
        """Whether it needs vectors or scores, as the sampler itself says."""
        return bool(getattr(self.make(), "by_score", False))

    def _draw(self, pool: SamplerPool, batch: SamplerBatch, k: int, seed: int) -> IntArray:
        drawn: IntArray = self.make().sample(pool, batch, k, np.random.default_rng(seed))
        assert drawn.shape == (len(batch.gold), k)
        assert drawn.dtype == np.int64
        return drawn

    def _rows(self, pool: SamplerPool, batch: SamplerBatch, k: int) -> list[list[int]]:
        rows = []
        for row in self._draw(pool, batch, k, k).tolist():
            real = [value for value in row if value != -1]
            assert row == real + [-1] * (k - len(real)), "-1 only at the end"
            rows.append(real)
        return rows

    def _cases(self) -> list[tuple[SamplerPool, SamplerBatch]]:
        """Pools of one domain and of several, with no, one and many answers and excluded rows."""
        one = [0] * 12
        several = [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 3]
        golds = [frozenset({0}), frozenset({4, 5}), frozenset({11}), frozenset(range(3, 8))]
        with_nil = [*golds, frozenset[int]()]
        cases = [(one, with_nil), (several, golds), (one[:2], [frozenset({1})])]
        return [
            self._case(domains, gold, vectors)
            for domains, gold in cases
            for vectors in (True, False)
            if vectors or not self._goes_by_score
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
        titles = [f"entity {number}" for number in range(len(domains))]
        pool = SamplerPool(np.array(domains, np.int64), rows if vectors else None, titles)
        # Of every other mention two rows are excluded, one of which may be gold.
        last = len(domains) - 1
        excluded = [frozenset({1, last} if one % 2 else ()) for one in range(len(gold))]
        surfaces = [f"mention {number}" for number in range(len(gold))]
        vectors_of = queries if vectors else None
        return pool, SamplerBatch(gold, vectors_of, excluded, surfaces=surfaces)


def _inner_products(pool: SamplerPool, batch: SamplerBatch) -> PairScores:
    """What the vectors of a pool and a batch say, as scores."""
    assert batch.vectors is not None
    products: FloatArray = batch.vectors @ pool.rows(slice(None)).T
    return lambda mentions, rows: products[np.ix_(mentions, rows)]


def _copies(*arrays: npt.NDArray[Any] | None) -> list[npt.NDArray[Any]]:
    return [array.copy() for array in arrays if array is not None]


def _check_among_mentions(sampler: MentionSampler) -> None:
    """Positives mean the same and are no mention itself; negatives share nothing with it."""
    rng = np.random.default_rng(8)
    golds = [frozenset(one) for one in ({0}, {1}, {0}, {0, 5}, {3}, {5}, {1}, {0})]
    excluded = [gold | ({4} if 3 in gold else set()) for gold in golds]
    rows, vectors = (rng.normal(size=(n, DIM)).astype(np.float32) for n in (6, len(golds)))
    pool = SamplerPool(np.array([0, 0, 0, 0, 1, 1]), rows, ["entity"] * 6)
    batch = SamplerBatch(golds, vectors, excluded, surfaces=["mention"] * len(golds))
    both = frozenset({0, 5})
    means = [both if gold <= both else gold for gold in golds]
    first, again = (sampler.positives(pool, batch, np.random.default_rng(1)) for _ in range(2))
    assert first.rows.tolist() == again.rows.tolist(), "the same seed, other positives"
    for mention, row in enumerate(first.rows.tolist()):
        other = row - len(pool)
        assert other != mention, "a mention is drawn to itself"
        same = row in means[mention] if other < 0 else means[other] == means[mention]
        assert same, "a positive that means another thing"
    drawn = sampler.negatives(pool, batch, np.arange(2, 8), 4)
    assert drawn.shape == (6, 4)
    for mention, row in enumerate(drawn.tolist(), 2):
        real = [one for one in row if one != -1]
        assert len(real) == len(set(real)), "a negative twice"
        for one in real:
            other = batch.forbidden(one - len(pool)) if one >= len(pool) else {one}
            assert not other & batch.forbidden(mention), "a negative that may mean the same"


# ------------------------------------------------ mixing; torch is loaded for these samplers alone
class _FirstStates:
    """Compares first states by their inner product."""

    def score(self, mentions: Encoded, entities: Encoded) -> Tensor:
        """A (mentions, entities) matrix."""
        return mentions.states[:, 0] @ entities.states[:, 0].T


def _check_mixing(sampler: MixingSampler) -> None:
    """The right answer's score comes first; what is masked has no part in the rest."""
    import torch

    mentions, entities = _states(4, 1), _states(6, 2)
    positive = torch.eye(4, 6, dtype=torch.bool)
    positive[3] = False
    masked = torch.zeros_like(positive)
    masked[0, 1] = masked[1, [0, 2, 3, 4]] = masked[2, 5] = True
    mix = partial(sampler.mix, _FirstStates(), mentions)
    for k in (1, 3, 8):
        made = mix(entities, positive, masked, k)
        assert made.shape == (4, 1 + k), "not (mentions, 1 + k)"
        right = _FirstStates().score(mentions, entities).diagonal()[:3]
        torch.testing.assert_close(made[:3, 0], right, msg="the right answer's score comes first")
        # Mention 0 has 4 others, mention 1 has 1, mention 2 has 4, mention 3 has no right answer.
        for row, others in enumerate((4, 1, 4)):
            held = torch.isfinite(made[row, 1:]).tolist()
            assert held == [at < others for at in range(k)], "-inf where no other is left, last"
        assert made[3].isneginf().all(), "scores without a right answer"
        changed = Encoded(entities.states.clone(), entities.mask)
        changed.states[1, 0] += 9.0
        torch.testing.assert_close(
            mix(changed, positive, masked, k)[0], made[0], msg="a masked entity has a part"
        )
        assert torch.equal(mix(entities, positive, masked, k), made)


def _states(count: int, seed: int) -> Encoded:
    """Texts of one to three tokens."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(count, 3, 5, generator=generator)
    return Encoded(states, torch.arange(3) <= torch.arange(count)[:, None] % 3)
