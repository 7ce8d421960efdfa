"""Contracts of what trains a model: correct plugins pass, each wrong one fails its check."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from contract_cases import contract_for, failing_checks, failure_of, mutant_id
from kglink.plugins import Encoded, Positives, SamplerBatch, SamplerPool, Scorer
from kglink.testing import ObjectiveContract, PluginContract, SamplerContract, ScorerContract
from kglink.testing.contracts.base import check_names
from reference_plugins import ReferenceObjective, ReferenceSampler, ReferenceScorer

if TYPE_CHECKING:
    from kglink.plugins import FloatArray, IntArray


def mean_product(mention: torch.Tensor, entity: torch.Tensor) -> float:
    return float(mention.mean(0) @ entity.mean(0))


def log_loss(scores: list[list[float]], positive: list[list[bool]]) -> float:
    """Minus the log of the share of the right answers, by hand, over rows that have any."""
    losses = []
    for row, right in zip(scores, positive, strict=True):
        if any(right):
            shares = [math.exp(score) for score in row]
            held = sum(share for share, yes in zip(shares, right, strict=True) if yes)
            losses.append(math.log(sum(shares)) - math.log(held))
    return sum(losses) / len(losses)


def scorer(scorer: type[ReferenceScorer]) -> type[PluginContract]:
    return contract_for(
        ScorerContract, scorer, expected_score=lambda _, *sides: mean_product(*sides)
    )


def objective(objective: type[ReferenceObjective]) -> type[PluginContract]:
    return contract_for(
        ObjectiveContract, objective, expected_loss=lambda _, *batch: log_loss(*batch)
    )


def sampler(sampler: type[ReferenceSampler], **described: object) -> type[PluginContract]:
    return contract_for(SamplerContract, sampler, **described)


class NearestFirst(ReferenceSampler):
    """Draws the rows that score highest: without chance, and only with vectors or scores."""

    by_score = True

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        drawn = np.full((len(batch.gold), k), -1, np.int64)
        for row in range(len(batch.gold)):
            order = np.argsort(-self.scores(pool, batch, row), kind="stable")
            best = [number for number in order.tolist() if number not in batch.forbidden(row)][:k]
            drawn[row, : len(best)] = best
        return drawn

    def scores(self, pool: SamplerPool, batch: SamplerBatch, mention: int) -> FloatArray:
        if batch.scores is not None:
            found: FloatArray = batch.scores(np.array([mention]), np.arange(len(pool)))[0]
            return found
        assert batch.vectors is not None
        products: FloatArray = self.vectors(pool) @ batch.vectors[mention]
        return products

    def vectors(self, pool: SamplerPool) -> FloatArray:
        return pool.rows(slice(None))


class Mixer(ReferenceSampler):
    """Makes negatives of half the right answer and half a wrong one, in the order of the batch."""

    def mix(
        self,
        scorer: Scorer,
        mentions: Encoded,
        entities: Encoded,
        positive: torch.Tensor,
        masked: torch.Tensor,
        k: int,
    ) -> torch.Tensor:
        scores = scorer.score(mentions, entities)
        made = torch.full((len(scores), 1 + k), -torch.inf)
        for row in positive.any(1).nonzero()[:, 0].tolist():
            right = scores[row][positive[row]]
            others = self.others(scores[row], positive[row], masked[row])[:k]
            made[row, : 1 + len(others)] = torch.cat([right, (right + others) / 2])
        return made

    def others(
        self, scores: torch.Tensor, positive: torch.Tensor, masked: torch.Tensor
    ) -> torch.Tensor:
        return scores[~positive & ~masked]


class DrawsToItself(ReferenceSampler):
    """Compares mentions, and takes each for its own parent."""

    def positives(
        self, pool: SamplerPool, batch: SamplerBatch, rng: np.random.Generator
    ) -> Positives:
        return Positives(len(pool) + np.arange(len(batch.gold)))

    def negatives(
        self, pool: SamplerPool, batch: SamplerBatch, wanted: IntArray, k: int
    ) -> IntArray:
        return np.full((len(wanted), k), -1, np.int64)


class DrawsAwayFromTheSame(DrawsToItself):
    """Draws each to its entity, and away from all other mentions."""

    def positives(
        self, pool: SamplerPool, batch: SamplerBatch, rng: np.random.Generator
    ) -> Positives:
        return Positives(np.array([min(one) for one in batch.gold]))

    def negatives(
        self, pool: SamplerPool, batch: SamplerBatch, wanted: IntArray, k: int
    ) -> IntArray:
        return len(pool) + (wanted[:, None] + 1 + np.arange(k)) % len(batch.gold)


class InDomain(ReferenceSampler):
    """Draws from the domain of the first right answer alone."""

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        elsewhere = [
            frozenset(np.flatnonzero(pool.domains != pool.domains[min(gold)]).tolist()) | gold
            if gold
            else gold
            for gold in batch.gold
        ]
        return super().sample(pool, batch._replace(gold=elsewhere), k, rng)


def same_domain(_: object, pool: SamplerPool, batch: SamplerBatch, mention: int) -> set[int]:
    gold = batch.gold[mention]
    rows = range(len(pool))
    return {row for row in rows if not gold or pool.domains[row] == pool.domains[min(gold)]}


CORRECT = {
    "scorer": scorer(ReferenceScorer),
    "objective": objective(ReferenceObjective),
    "sampler": sampler(ReferenceSampler),
    "sampler without chance": sampler(NearestFirst, stochastic=False),
    "sampler within a domain": sampler(InDomain, eligible=same_domain),
    "sampler that mixes": sampler(Mixer),
    "undescribed sampler": sampler(InDomain, generic=True),
}


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_plugin_passes(name: str, tmp_path: Path) -> None:
    assert failing_checks(CORRECT[name], tmp_path) == {}


# --------------------------------------------------------------------------------- scorers
class CountsPadding(ReferenceScorer):
    def mean(self, batch: Encoded) -> torch.Tensor:
        return batch.states.mean(1)


class DividesByTheLength(ReferenceScorer):
    def mean(self, batch: Encoded) -> torch.Tensor:
        return batch.states.masked_fill(~batch.mask[..., None], 0.0).mean(1)


class NormalisesOverTheBatch(ReferenceScorer):
    def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
        return super().score(mentions, entities).softmax(1)


class Transposed(ReferenceScorer):
    def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
        return super().score(mentions, entities).T


class Detached(ReferenceScorer):
    def mean(self, batch: Encoded) -> torch.Tensor:
        return super().mean(batch).detach()


class OneSided(ReferenceScorer):
    def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
        return super().score(mentions, Encoded(entities.states.detach(), entities.mask))


class MasksInPlace(ReferenceScorer):
    def mean(self, batch: Encoded) -> torch.Tensor:
        batch.states[~batch.mask] = 0.0
        return super().mean(batch)


class SumOfBoth(ReferenceScorer):
    def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
        return self.mean(mentions).sum(1)[:, None] + self.mean(entities).sum(1)[None]


class ByPosition(ReferenceScorer):
    def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
        scores = super().score(mentions, entities)
        return scores + torch.arange(scores.shape[1])


class Constant(ReferenceScorer):
    def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
        return super().score(mentions, entities) * 0


class DropsOut(ReferenceScorer):
    def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
        return torch.nn.functional.dropout(super().score(mentions, entities), 0.5)


class RootOfZero(ReferenceScorer):
    """The gradient of the root is infinite where padding makes it zero."""

    def mean(self, batch: Encoded) -> torch.Tensor:
        kept = batch.states * batch.mask[..., None]
        return (kept**2).sqrt().sum(1)


class PicksTokens(ReferenceScorer):
    """How many tokens there are is not known under vmap."""

    def mean(self, batch: Encoded) -> torch.Tensor:
        pairs = zip(batch.states, batch.mask, strict=True)
        return torch.stack([states[mask].mean(0) for states, mask in pairs])


class PoolsAnother(ReferenceScorer):
    """Pools to the first token, but compares means."""

    def pool(self, batch: Encoded) -> Encoded:
        return Encoded(batch.states[:, :1], batch.mask[:, :1])


SCORER_MUTANTS = [
    (scorer(CountsPadding), "test_padding_changes_nothing"),
    (scorer(DividesByTheLength), "test_padding_changes_nothing"),
    (scorer(DividesByTheLength), "test_matrix_equals_scoring_one_by_one"),
    (scorer(NormalisesOverTheBatch), "test_matrix_equals_scoring_one_by_one"),
    (scorer(Transposed), "test_matrix_equals_scoring_one_by_one"),
    (scorer(SumOfBoth), "test_equals_the_formula"),
    (scorer(ByPosition), "test_order_of_the_batch_changes_nothing"),
    (scorer(Detached), "test_gradients_are_finite_and_reach_both_sides"),
    (scorer(OneSided), "test_gradients_are_finite_and_reach_both_sides"),
    (scorer(RootOfZero), "test_gradients_are_finite_and_reach_both_sides"),
    (scorer(MasksInPlace), "test_is_repeatable_and_leaves_its_arguments_alone"),
    (scorer(DropsOut), "test_is_repeatable_and_leaves_its_arguments_alone"),
    (scorer(Constant), "test_tells_entities_apart"),
    (scorer(PicksTokens), "test_scores_entities_of_each_mentions_own"),
    (scorer(PoolsAnother), "test_pooled_texts_score_the_same"),
]


# ------------------------------------------------------------------------------ objectives
class UpsideDown(ReferenceObjective):
    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        return -super().loss(scores, positive)


class PerRow(ReferenceObjective):
    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        return super().loss(scores, positive)[None]


class BreaksWithoutAnAnswer(ReferenceObjective):
    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        right = scores.masked_fill(~positive, -torch.inf).logsumexp(1)
        return (scores.logsumexp(1) - right).mean()


class Overflows(ReferenceObjective):
    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        some = positive.any(1)
        shares = scores[some].exp()
        return -(shares * positive[some]).sum(1).div(shares.sum(1)).log().mean()


class MultipliesTheMask(ReferenceObjective):
    """Minus infinity times zero is not a number."""

    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        return super().loss(scores, positive) + (scores * 0).sum()


class LikesWrongAnswers(ReferenceObjective):
    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        wrong = scores.masked_fill(positive | torch.isinf(scores), 0.0)
        return super().loss(scores, positive) - wrong.sum()


class PunishesHighScores(ReferenceObjective):
    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        return super().loss(scores, positive) + scores[torch.isfinite(scores)].sum()


class CountsColumns(ReferenceObjective):
    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        return super().loss(scores, positive) / scores.shape[1]


class FirstRowCountsMore(ReferenceObjective):
    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        return super().loss(scores, positive) + super().loss(scores[:1], positive[:1])


class WritesIntoScores(ReferenceObjective):
    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        made = super().loss(scores, positive)
        if not scores.requires_grad:
            scores -= 1
        return made


class NeverMoves(ReferenceObjective):
    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        return scores[torch.isfinite(scores)].sum() * 0.0


class OffByAFactor(ReferenceObjective):
    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        return super().loss(scores, positive) * len(scores)


OBJECTIVE_MUTANTS = [
    (objective(PerRow), "test_is_a_finite_scalar_with_finite_gradients"),
    (objective(BreaksWithoutAnAnswer), "test_is_a_finite_scalar_with_finite_gradients"),
    (objective(Overflows), "test_is_a_finite_scalar_with_finite_gradients"),
    (objective(MultipliesTheMask), "test_is_a_finite_scalar_with_finite_gradients"),
    (objective(OffByAFactor), "test_equals_the_formula"),
    (objective(UpsideDown), "test_higher_right_answers_never_raise_the_loss"),
    (objective(PunishesHighScores), "test_higher_right_answers_never_raise_the_loss"),
    (objective(LikesWrongAnswers), "test_higher_wrong_answers_never_lower_the_loss"),
    (objective(NeverMoves), "test_right_answers_on_top_cost_less_than_wrong_ones"),
    (objective(FirstRowCountsMore), "test_order_of_rows_and_columns_changes_nothing"),
    (objective(CountsColumns), "test_a_masked_column_is_as_if_it_were_not_there"),
    (objective(WritesIntoScores), "test_is_repeatable_and_leaves_its_arguments_alone"),
]


# -------------------------------------------------------------------------------- samplers
class Altered(ReferenceSampler):
    """Calls the reference with something changed; the base of wrong samplers."""

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        return self.altered(super().sample(pool, batch, k, rng), pool, batch)

    def altered(self, drawn: IntArray, pool: SamplerPool, batch: SamplerBatch) -> IntArray:
        return drawn


class DrawsGold(ReferenceSampler):
    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        none = [frozenset[int]() for _ in batch.gold]
        return super().sample(pool, batch._replace(gold=none, excluded=None), k, rng)


class DrawsExcluded(ReferenceSampler):
    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        return super().sample(pool, batch._replace(excluded=None), k, rng)


class ReadsBits(NearestFirst):
    """Takes vectors as they are kept for numbers."""

    def vectors(self, pool: SamplerPool) -> FloatArray:
        assert pool.vectors is not None
        numbers: FloatArray = np.array(pool.vectors, np.float32)
        return numbers


class WithReplacement(Altered):
    def altered(self, drawn: IntArray, pool: SamplerPool, batch: SamplerBatch) -> IntArray:
        drawn[:, 1:] = drawn[:, :1]
        return drawn


class BeyondThePool(Altered):
    def altered(self, drawn: IntArray, pool: SamplerPool, batch: SamplerBatch) -> IntArray:
        return np.where(drawn == -1, len(pool.domains), drawn)


class GivesUpEarly(Altered):
    def altered(self, drawn: IntArray, pool: SamplerPool, batch: SamplerBatch) -> IntArray:
        drawn[:, -1] = -1
        return drawn


class GapsInside(Altered):
    def altered(self, drawn: IntArray, pool: SamplerPool, batch: SamplerBatch) -> IntArray:
        return drawn[:, ::-1].copy()


class OwnChance(ReferenceSampler):
    numbers = itertools.count()

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        return super().sample(pool, batch, k, np.random.default_rng(next(self.numbers)))


class IgnoresTheSeed(ReferenceSampler):
    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        return super().sample(pool, batch, k, np.random.default_rng(0))


class ShufflesThePool(Altered):
    def altered(self, drawn: IntArray, pool: SamplerPool, batch: SamplerBatch) -> IntArray:
        pool.domains[:] = pool.domains[::-1] + 1
        return drawn


class NeedsAMention(Altered):
    def altered(self, drawn: IntArray, pool: SamplerPool, batch: SamplerBatch) -> IntArray:
        return np.stack(list(drawn))


class MixesMasked(Mixer):
    def others(
        self, scores: torch.Tensor, positive: torch.Tensor, masked: torch.Tensor
    ) -> torch.Tensor:
        return scores[~positive]


class LooksAtMasked(Mixer):
    """Leaves masked cells out, but lets them move the others."""

    def others(
        self, scores: torch.Tensor, positive: torch.Tensor, masked: torch.Tensor
    ) -> torch.Tensor:
        return super().others(scores, positive, masked) + scores[masked].sum()


class WrongDomain(ReferenceSampler):
    """Says that it stays in its domain, but draws from all."""


class KnowsVectorsAlone(NearestFirst):
    """Where no vectors are, the first rows do."""

    def scores(self, pool: SamplerPool, batch: SamplerBatch, mention: int) -> FloatArray:
        if batch.vectors is None:
            return np.zeros(len(pool), np.float32)
        return super().scores(pool, batch, mention)


class HidesThatItGoesByScore(NearestFirst):
    by_score = False


SAMPLER_MUTANTS = [
    (
        sampler(KnowsVectorsAlone, stochastic=False),
        "test_scores_in_the_place_of_vectors_draw_the_same_if_it_goes_by_score",
    ),
    (sampler(HidesThatItGoesByScore, stochastic=False), "test_same_seed_draws_the_same"),
    (sampler(DrawsGold), "test_draws_distinct_rows_that_are_never_forbidden"),
    (sampler(DrawsExcluded), "test_draws_distinct_rows_that_are_never_forbidden"),
    (sampler(WithReplacement), "test_draws_distinct_rows_that_are_never_forbidden"),
    (sampler(BeyondThePool), "test_draws_distinct_rows_that_are_never_forbidden"),
    (sampler(GapsInside), "test_draws_distinct_rows_that_are_never_forbidden"),
    (sampler(ReadsBits, stochastic=False), "test_vectors_in_half_precision_draw_the_same"),
    (sampler(GivesUpEarly), "test_draws_all_that_is_asked_or_left"),
    (sampler(GivesUpEarly, generic=True), "test_draws_all_that_is_asked_or_left"),
    (sampler(WrongDomain, eligible=same_domain), "test_draws_all_that_is_asked_or_left"),
    (sampler(OwnChance), "test_same_seed_draws_the_same"),
    (sampler(IgnoresTheSeed), "test_another_seed_draws_other_rows_if_stochastic"),
    (sampler(WrongDomain, stochastic=False), "test_another_seed_draws_other_rows_if_stochastic"),
    (sampler(ShufflesThePool), "test_leaves_its_arguments_alone"),
    (sampler(NeedsAMention), "test_an_empty_batch_and_an_empty_pool"),
    (sampler(MixesMasked), "test_makes_negatives_of_the_batch_if_it_mixes"),
    (sampler(LooksAtMasked), "test_makes_negatives_of_the_batch_if_it_mixes"),
    (sampler(DrawsToItself), "test_draws_to_what_means_the_same_if_it_compares_mentions"),
    (sampler(DrawsAwayFromTheSame), "test_draws_to_what_means_the_same_if_it_compares_mentions"),
]


MUTANTS = [*SCORER_MUTANTS, *OBJECTIVE_MUTANTS, *SAMPLER_MUTANTS]


@pytest.mark.parametrize("case", MUTANTS, ids=mutant_id)
def test_a_wrong_plugin_fails(case: tuple[type[PluginContract], str], tmp_path: Path) -> None:
    contract, check = case
    assert failure_of(contract, check, tmp_path / "check") is not None


@pytest.mark.parametrize("kind", ["scorer", "objective", "sampler"])
def test_every_check_fails_for_some_wrong_plugin(kind: str) -> None:
    checks = set(check_names(CORRECT[kind]))
    assert checks == {check for contract, check in MUTANTS if contract.kind == kind}
