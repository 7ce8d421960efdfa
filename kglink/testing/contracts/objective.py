"""The contract of training objectives: finite, and pushing in the right direction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

from kglink.plugins import Objective
from kglink.testing.contracts.base import PluginContract

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

    def make(self) -> Objective:
        """The objective under test."""
        objective: Objective = self.create()
        return objective

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
                loss.backward()  # type: ignore[no-untyped-call] # torch does not type it
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
