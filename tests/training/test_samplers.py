"""The samplers: against brute force, at random, at scale."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kglink.errors import UsageError
from kglink.plugins import Sampler, SamplerBatch, SamplerPool, load_registry
from kglink.testing import SamplerContract
from kglink_plugins.plugin import KnnSettings, MixedSettings
from kglink_plugins.samplers import mixed
from kglink_plugins.samplers.draw import Rows, draw
from kglink_plugins.samplers.mixed import MixedP, knn

if TYPE_CHECKING:
    from kglink.plugins import FloatArray, IntArray


def named(name: str) -> Sampler:
    return load_registry().create("sampler", f"kglink/{name}")


# ------------------------------------------------------------------------------- contracts
class InItsDomains(SamplerContract):
    def eligible(self, pool: SamplerPool, batch: SamplerBatch, mention: int) -> set[int]:
        own = {pool.domains[row] for row in batch.gold[mention]}
        return {row for row in range(len(pool)) if not own or pool.domains[row] in own}


class AmongTheBatch(SamplerContract):
    def eligible(self, pool: SamplerPool, batch: SamplerBatch, mention: int) -> set[int]:
        return set().union(*batch.gold)


class TestInBatch(AmongTheBatch):
    plugin = "kglink/in_batch"


class TestRandomCrossDomain(SamplerContract):
    plugin = "kglink/random_cross_domain"


class TestRandomInDomain(InItsDomains):
    plugin = "kglink/random_in_domain"


class TestHardCrossDomain(SamplerContract):
    plugin = "kglink/hard_cross_domain"
    stochastic = False


class TestHardInDomain(InItsDomains):
    plugin = "kglink/hard_in_domain"
    stochastic = False


class TestKnn(SamplerContract):
    plugin = "kglink/knn"
    stochastic = False


class TestMixedInBatch(AmongTheBatch):
    plugin = "kglink/mixed_p"


class TestMixedInDomain(InItsDomains):
    plugin = "kglink/mixed_p"
    settings = MappingProxyType({"among": "domain", "p": 0.3})


class TestMixedWithoutHardOnes(SamplerContract):
    plugin = "kglink/mixed_p"
    settings = MappingProxyType({"among": "pool", "p": 0})


class TestAdaptiveMixupHard(AmongTheBatch):
    plugin = "kglink/adaptive_mixup_hard"
    stochastic = False


# ------------------------------------------------------------------------------------ hard
ROWS, MENTIONS, DIM, K = 1500, 40, 8, 15


def world(*, whole_numbers: bool, seed: int = 3) -> tuple[SamplerPool, SamplerBatch]:
    """Domains that lie scattered over the pool, one of them tiny; whole numbers make many ties."""
    rng = np.random.default_rng(seed)
    domains = rng.integers(0, 4, ROWS)
    domains[rng.choice(ROWS, 6, replace=False)] = 9
    tiny = np.flatnonzero(domains == 9)

    def vectors(count: int) -> FloatArray:
        if whole_numbers:
            return rng.integers(-2, 3, (count, DIM)).astype(np.float32)
        return rng.standard_normal((count, DIM)).astype(np.float32)

    gold = [frozenset({int(row)}) for row in rng.integers(0, ROWS, MENTIONS)]
    gold[0], gold[1], gold[2] = frozenset({int(tiny[2])}), frozenset({5, 6, 7}), frozenset()
    excluded = [frozenset(rng.integers(0, ROWS, 30).tolist()) for _ in range(MENTIONS)]
    return SamplerPool(domains, vectors(ROWS)), SamplerBatch(gold, vectors(MENTIONS), excluded)


def brute_force(
    pool: SamplerPool, batch: SamplerBatch, k: int, *, in_domain: bool
) -> list[list[int]]:
    """Every score, sorted: the highest first, equal ones by their row."""
    assert batch.vectors is not None
    scores = batch.vectors.astype(np.float64) @ pool.rows(slice(None)).astype(np.float64).T
    found = []
    for mention, gold in enumerate(batch.gold):
        own = {pool.domains[row] for row in gold}
        rows = [
            row
            for row in range(len(pool))
            if row not in batch.forbidden(mention)
            and (not in_domain or not own or pool.domains[row] in own)
        ]
        best = sorted(rows, key=lambda row: (-scores[mention, row], row))[:k]
        found.append(best + [-1] * (k - len(best)))
    return found


def sample(sampler: Sampler, pool: SamplerPool, batch: SamplerBatch, k: int = K) -> list[list[int]]:
    rows: list[list[int]] = sampler.sample(pool, batch, k, np.random.default_rng(0)).tolist()
    return rows


@pytest.mark.parametrize("whole_numbers", [False, True], ids=["reals", "ties"])
@pytest.mark.parametrize("block", [7, 512])
def test_hard_negatives_equal_brute_force(
    whole_numbers: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixed, "_FIRST", block)
    monkeypatch.setattr(mixed, "_MENTIONS", 2 * block)
    monkeypatch.setattr(mixed, "_SCORES", 50 * block)
    pool, batch = world(whole_numbers=whole_numbers)
    everywhere = brute_force(pool, batch, K, in_domain=False)
    at_home = brute_force(pool, batch, K, in_domain=True)
    assert sample(named("hard_cross_domain"), pool, batch) == everywhere
    assert sample(named("hard_in_domain"), pool, batch) == at_home
    assert sample(knn(), pool, batch) == everywhere
    assert sample(knn(KnnSettings(in_domain=True)), pool, batch) == at_home
    # Of the tiny domain's six entities, five are left at most.
    assert at_home[0][5:] == [-1] * (K - 5)


def test_scores_take_the_place_of_inner_products() -> None:
    pool, batch = world(whole_numbers=True)
    asked: list[tuple[int, int]] = []

    def scores(mentions: IntArray, rows: IntArray) -> FloatArray:
        assert (np.diff(rows) > 0).all(), "rows ascend"
        asked.append((len(mentions), len(rows)))
        assert batch.vectors is not None
        products: FloatArray = batch.vectors[mentions] @ pool.rows(rows).T
        products.flags.writeable = False
        return products

    bare, told = SamplerPool(pool.domains), batch._replace(vectors=None, scores=scores)
    for sampler in (named("hard_cross_domain"), named("hard_in_domain")):
        assert sample(sampler, bare, told) == sample(sampler, pool, batch)
    assert sum(mentions * rows for mentions, rows in asked) <= 2 * MENTIONS * ROWS


@pytest.mark.parametrize(
    "sampler", [named("hard_cross_domain"), named("hard_in_domain"), knn(), MixedP()]
)
def test_hard_negatives_without_vectors_are_refused(sampler: Sampler) -> None:
    pool, batch = world(whole_numbers=True)
    for lacking in (
        (SamplerPool(pool.domains), batch),
        (pool, batch._replace(vectors=None)),
    ):
        with pytest.raises(UsageError, match="need the vectors of mentions and entities"):
            sample(sampler, *lacking)


def test_hard_negatives_of_memory_mapped_bf16(tmp_path: object) -> None:
    pool, batch = world(whole_numbers=True)
    bits = (pool.rows(slice(None)).view(np.uint32) >> 16).astype(np.uint16).view(np.int16)
    file = f"{tmp_path}/vectors.npy"
    np.save(file, bits)
    mapped = SamplerPool(pool.domains, np.load(file, mmap_mode="r"))
    for sampler in (named("hard_cross_domain"), named("hard_in_domain")):
        assert sample(sampler, mapped, batch) == sample(sampler, pool, batch)


# ---------------------------------------------------------------------------------- random
def test_every_set_has_the_same_chance() -> None:
    """Three of the five rows that are left: ten sets, each about a tenth of the draws."""
    rng, rows = np.random.default_rng(1), Rows(range(8))
    draws = Counter(frozenset(draw(rows, {0, 3, 7}, 3, rng).tolist()) for _ in range(5000))
    assert set(draws) == {frozenset(some) for some in combinations((1, 2, 4, 5, 6), 3)}
    # 500 of each are expected, with a deviation of 21.
    assert all(400 < count < 600 for count in draws.values())


def test_every_place_has_the_same_chance() -> None:
    rng, rows = np.random.default_rng(2), Rows(np.array([2, 3, 5, 7, 11]))
    firsts = Counter(int(draw(rows, {3, 4}, 2, rng)[0]) for _ in range(4000))
    assert set(firsts) == {2, 5, 7, 11}
    assert all(880 < count < 1120 for count in firsts.values())


def test_a_draw_does_not_walk_through_the_pool() -> None:
    """A pool that no memory holds: its rows are never listed."""
    rng, forbidden = np.random.default_rng(3), range(10**11, 10**11 + 50)
    drawn = draw(Rows(range(10**12)), forbidden, 200, rng)
    assert len(set(drawn.tolist()) - set(forbidden)) == 200
    assert drawn.min() >= 0
    assert drawn.max() < 10**12


def test_random_negatives_stay_in_the_domain() -> None:
    pool, batch = world(whole_numbers=True)
    for mention, rows in enumerate(sample(named("random_in_domain"), pool, batch)):
        own = {pool.domains[row] for row in batch.gold[mention]} or {0, 1, 2, 3, 9}
        assert {pool.domains[row] for row in rows if row >= 0} <= own
    everywhere = sample(named("random_cross_domain"), pool, batch)
    assert len({pool.domains[row] for rows in everywhere for row in rows}) > 3


def test_a_counterpart_does_not_widen_the_domain() -> None:
    pool = SamplerPool(np.array([0, 0, 0, 1, 1, 1]))
    batch = SamplerBatch([frozenset({0})], excluded=[frozenset({4})])
    assert sorted(sample(named("random_in_domain"), pool, batch, 3)[0]) == [-1, 1, 2]
    assert sorted(sample(named("random_cross_domain"), pool, batch, 5)[0]) == [-1, 1, 2, 3, 5]


def test_in_batch_draws_other_golds_and_no_counterparts() -> None:
    pool = SamplerPool(np.zeros(100, np.int64))
    gold = [frozenset({row}) for row in (7, 40, 40, 99)]
    excluded = [frozenset({99}), *[frozenset[int]()] * 3]
    rows = sample(named("in_batch"), pool, SamplerBatch(gold, excluded=excluded), 3)
    assert [sorted(row) for row in rows] == [[-1, -1, 40], [-1, 7, 99], [-1, 7, 99], [-1, 7, 40]]


@pytest.mark.parametrize(("p", "k", "hard"), [(0.5, 10, 5), (0.5, 5, 3), (0.3, 10, 3), (1, 4, 4)])
def test_mixed_takes_its_share_of_hard_ones_first(p: float, k: int, hard: int) -> None:
    pool, batch = world(whole_numbers=False)
    hardest = brute_force(pool, batch, k, in_domain=False)
    hits = 0
    for rows, best in zip(
        sample(MixedP(MixedSettings(p=p, among="pool")), pool, batch, k), hardest, strict=True
    ):
        assert rows[:hard] == best[:hard]
        assert len(set(rows)) == k
        hits += len(set(rows[hard:]) & set(best))
    assert hits < MENTIONS / 2, "the others are hard as well"


def test_when_a_sampler_is_to_be_asked() -> None:
    registry = load_registry()
    told = {
        plugin.short_name: (sampler.by_score, sampler.in_batch)
        for plugin in registry.plugins("sampler")
        if plugin.provider.builtin
        for sampler in [plugin.factory(registry.settings_for("sampler", plugin.name))]
    }
    assert told == {
        "in_batch": (False, True),
        "random_cross_domain": (False, False),
        "random_in_domain": (False, False),
        "hard_cross_domain": (True, False),
        "hard_in_domain": (True, False),
        "arborescence": (True, False),
        "knn": (True, False),
        "mixed_p": (True, True),
        "adaptive_mixup_hard": (True, True),
    }
    in_pool = MixedP(MixedSettings(among="pool", p=0))
    assert (in_pool.by_score, in_pool.in_batch) == (False, False)
