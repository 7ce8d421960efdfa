"""The contracts of scorers and objectives: padding changes nothing, the push is the right way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

from kglink.plugins import Encoded, PoolingScorer, Scorer
from kglink.testing.contracts.base import PluginContract

DIM = 12


class ScorerContract(PluginContract):
    """A score depends on its own mention and entity alone, and gradients flow through it."""

    kind = "scorer"
    tolerance: float = 1e-5
    """How far two ways to the same score may lie apart, in relation to it."""

    def make(self) -> Scorer:
        """The scorer under test, made with the same weights each time."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            scorer: Scorer = self.create()
        return scorer

    def expected_score(self, mention: torch.Tensor, entity: torch.Tensor) -> float | None:
        """The score by the paper's formula of two (tokens, dim) matrices; None: not said."""
        return None

    def test_matrix_equals_scoring_one_by_one(self) -> None:
        scorer, mentions, entities = self.make(), encoded([3, 1, 5], 1), encoded([4, 2, 1, 6], 2)
        matrix = scorer.score(mentions, entities)
        assert matrix.shape == (3, 4)
        assert matrix.dtype == mentions.states.dtype
        for row in range(3):
            for column in range(4):
                alone = scorer.score(_alone(mentions, row), _alone(entities, column))
                self._close(alone, matrix[row : row + 1, column : column + 1])

    def test_equals_the_formula(self) -> None:
        scorer, mentions, entities = self.make(), encoded([3, 1], 3), encoded([4, 2, 5], 4)
        matrix = scorer.score(mentions, entities)
        for row in range(2):
            for column in range(3):
                wanted = self.expected_score(_tokens(mentions, row), _tokens(entities, column))
                if wanted is not None:
                    self._close(matrix[row, column], torch.tensor(wanted))

    def test_padding_changes_nothing(self) -> None:
        scorer, mentions, entities = self.make(), encoded([3, 1, 5], 5), encoded([4, 2], 6)
        matrix = scorer.score(mentions, entities)
        for junk in (0.0, 1e3, -1e3):
            self._close(scorer.score(_refill(mentions, junk), _refill(entities, junk)), matrix)
            self._close(
                scorer.score(_lengthen(mentions, 4, junk), _lengthen(entities, 3, junk)), matrix
            )

    def test_order_of_the_batch_changes_nothing(self) -> None:
        scorer, mentions, entities = self.make(), encoded([3, 1, 5], 7), encoded([4, 2, 6], 8)
        matrix = scorer.score(mentions, entities)
        order = torch.tensor([2, 0, 1])
        turned = scorer.score(_pick(mentions, order), _pick(entities, order))
        self._close(turned, matrix[order][:, order])

    def test_scores_entities_of_each_mentions_own(self) -> None:
        scorer, mentions, entities = self.make(), encoded([3, 1, 5], 15), encoded([4, 2, 6, 1], 16)
        own = torch.tensor([[0, 3], [2, 1], [1, 2]])

        def one(mention: Encoded, candidates: Encoded) -> torch.Tensor:
            alone = Encoded(mention.states[None], mention.mask[None])
            return scorer.score(alone, candidates)[0]

        got = torch.func.vmap(one)(mentions, _pick(entities, own))
        self._close(got, scorer.score(mentions, entities).gather(1, own))

    def test_pooled_texts_score_the_same(self) -> None:
        scorer, mentions, entities = self.make(), encoded([3, 1, 5], 17), encoded([4, 2], 18)
        if isinstance(scorer, PoolingScorer):
            pooled = scorer.score(scorer.pool(mentions), scorer.pool(entities))
            self._close(pooled, scorer.score(mentions, entities))

    def test_gradients_are_finite_and_reach_both_sides(self) -> None:
        scorer, mentions, entities = self.make(), encoded([3, 1, 5], 9), encoded([4, 2], 10)
        for side in (mentions, entities):
            side.states.requires_grad_()
        weights = torch.linspace(1.0, 2.0, 6).reshape(3, 2)
        loss = (scorer.score(mentions, entities) * weights).sum()
        loss.backward()  # type: ignore[no-untyped-call] # torch does not type it
        for side in (mentions, entities):
            gradient = side.states.grad
            assert gradient is not None, "no gradient"
            assert torch.isfinite(gradient).all()
            assert (gradient[side.mask] != 0).any(), "the scores do not depend on this side"
            assert (gradient[~side.mask] == 0).all(), "padding gets a gradient"

    def test_is_repeatable_and_leaves_its_arguments_alone(self) -> None:
        scorer, mentions, entities = self.make(), encoded([3, 2], 11), encoded([1, 4], 12)
        before = mentions.states.clone(), entities.states.clone()
        first = scorer.score(mentions, entities)
        assert torch.equal(scorer.score(mentions, entities), first)
        self._close(self.make().score(mentions, entities), first)
        assert torch.equal(mentions.states, before[0])
        assert torch.equal(entities.states, before[1])

    def test_tells_entities_apart(self) -> None:
        matrix = self.make().score(encoded([3], 13), encoded([4, 4, 4], 14))
        assert len({round(score, 6) for score in matrix[0].tolist()}) > 1, "all scores are equal"

    def _close(self, got: torch.Tensor, wanted: torch.Tensor) -> None:
        torch.testing.assert_close(
            got, wanted.to(got.dtype), rtol=self.tolerance, atol=self.tolerance
        )


def encoded(lengths: list[int], seed: int) -> Encoded:
    """Random states of sequences of these lengths, with junk where they are padded."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(len(lengths), max(lengths), DIM, generator=generator)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    states[~mask] = 77.0
    return Encoded(states, mask)


def _pick(batch: Encoded, rows: torch.Tensor) -> Encoded:
    return Encoded(batch.states[rows], batch.mask[rows])


def _alone(batch: Encoded, row: int) -> Encoded:
    """A batch of one row without any padding."""
    tokens = _tokens(batch, row)
    return Encoded(tokens[None], torch.ones(1, len(tokens), dtype=torch.bool))


def _tokens(batch: Encoded, row: int) -> torch.Tensor:
    return batch.states[row][batch.mask[row]]


def _refill(batch: Encoded, junk: float) -> Encoded:
    return Encoded(batch.states.masked_fill(~batch.mask[..., None], junk), batch.mask)


def _lengthen(batch: Encoded, more: int, junk: float) -> Encoded:
    rows, _, dim = batch.states.shape
    states = torch.cat([batch.states, torch.full((rows, more, dim), junk)], dim=1)
    return Encoded(states, torch.cat([batch.mask, torch.zeros(rows, more, dtype=torch.bool)], 1))


MASKED = -math.inf


class Batch(NamedTuple):
    """Scores, and which of them are right answers."""

    scores: torch.Tensor
    positive: torch.Tensor


class ObjectiveContract(PluginContract):
    """A loss that falls when right answers score higher, and never breaks a training run."""

    kind = "objective"
    tolerance: float = 1e-5
    """How far two ways to the same loss may lie apart, in relation to it."""

    def expected_loss(self, scores: list[list[float]], positive: list[list[bool]]) -> float | None:
        """The loss by the paper's formula; None: not said."""
        return None

    def test_is_a_finite_scalar_with_finite_gradients(self) -> None:
        for batch in _batches():
            for scale in (0.0, 1.0, 1e4):
                scores = torch.where(
                    torch.isinf(batch.scores), batch.scores, batch.scores * scale
                ).requires_grad_()
                loss = self.make().loss(scores, batch.positive)
                assert loss.shape == (), "the loss is a scalar"
                assert torch.isfinite(loss)
                loss.backward()
                gradient = scores.grad
                assert gradient is not None
                assert torch.isfinite(gradient).all(), "a gradient is not finite"
                assert (gradient[torch.isinf(batch.scores)] == 0).all(), "a masked cell takes part"

    def test_equals_the_formula(self) -> None:
        for batch in _batches():
            wanted = self.expected_loss(batch.scores.tolist(), batch.positive.tolist())
            if wanted is not None:
                assert math.isclose(
                    self._loss(batch), wanted, rel_tol=self.tolerance, abs_tol=self.tolerance
                )

    def test_higher_right_answers_never_raise_the_loss(self) -> None:
        for batch in _batches():
            before = self._loss(batch)
            for row in range(len(batch.scores)):
                for step in (0.1, 3.0):
                    raised = batch.scores.clone()
                    raised[row][batch.positive[row]] += step
                    assert self._loss(Batch(raised, batch.positive)) <= before + self._slack(before)

    def test_higher_wrong_answers_never_lower_the_loss(self) -> None:
        for batch in _batches():
            before = self._loss(batch)
            for row, column in (~batch.positive).nonzero().tolist():
                raised = batch.scores.clone()
                raised[row, column] += 2.0
                assert self._loss(Batch(raised, batch.positive)) >= before - self._slack(before)

    def test_right_answers_on_top_cost_less_than_wrong_ones(self) -> None:
        positive = torch.eye(4, dtype=torch.bool)
        right = torch.where(positive, 1.0, -1.0)
        assert self._loss(Batch(right, positive)) < self._loss(Batch(-right, positive))

    def test_order_of_rows_and_columns_changes_nothing(self) -> None:
        for batch in _batches():
            before = self._loss(batch)
            rows = torch.arange(len(batch.scores)).flip(0)
            columns = torch.arange(batch.scores.shape[1]).roll(2)
            self._close(self._loss(Batch(batch.scores[rows], batch.positive[rows])), before)
            self._close(
                self._loss(Batch(batch.scores[:, columns], batch.positive[:, columns])), before
            )

    def test_a_masked_column_is_as_if_it_were_not_there(self) -> None:
        for batch in _batches():
            rows = len(batch.scores)
            scores = torch.cat([batch.scores, torch.full((rows, 1), MASKED)], dim=1)
            positive = torch.cat([batch.positive, torch.zeros(rows, 1, dtype=torch.bool)], dim=1)
            self._close(self._loss(Batch(scores, positive)), self._loss(batch))

    def test_is_repeatable_and_leaves_its_arguments_alone(self) -> None:
        for batch in _batches():
            before = batch.scores.clone(), batch.positive.clone()
            objective = self.make()
            first = objective.loss(batch.scores, batch.positive)
            assert torch.equal(objective.loss(batch.scores, batch.positive), first)
            assert torch.equal(batch.scores, before[0])
            assert torch.equal(batch.positive, before[1])

    def _loss(self, batch: Batch) -> float:
        return float(self.make().loss(batch.scores, batch.positive))

    def _slack(self, value: float) -> float:
        return self.tolerance * (1 + abs(value))

    def _close(self, got: float, wanted: float) -> None:
        assert abs(got - wanted) <= self._slack(wanted)


def _batches() -> Iterator[Batch]:
    """One right answer per row, several, none in some rows, and masked cells."""
    scores = torch.randn(4, 6, generator=torch.Generator().manual_seed(3))
    single = torch.zeros(4, 6, dtype=torch.bool)
    single[range(4), [0, 2, 2, 5]] = True
    several = single.clone()
    several[[0, 0, 3], [1, 4, 0]] = True
    some = several.clone()
    some[1] = False
    yield Batch(scores, single)
    yield Batch(scores, several)
    yield Batch(scores, some)
    masked = scores.clone()
    masked[[0, 1, 3], [5, 0, 3]] = MASKED
    yield Batch(masked, single)
    yield Batch(masked, some)
