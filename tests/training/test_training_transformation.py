"""The adversary A makes a step harder, stays in its ball, and tells how far it moves states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kglink.plugins import Registry
from kglink.training import Recipe
from kglink.training.data import TrainingData
from kglink.training.pairs import PairTask, Tools
from kglink.training.processes import Team
from kglink.training.stages import make_plan
from training_steps import made, one_thread
from training_world import small

pytest_plugins = ["step_fixtures"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def steps(
    registry: Registry, data: TrainingData, given: Recipe, count: int
) -> tuple[list[float], PairTask]:
    stage = make_plan(data, given, "TS")[0]
    scorer = registry.create("scorer", given.model.scorer, given.model.scorer_settings)
    tools = Tools(made(given), scorer, data, registry, Team("cpu"), 0)
    trainer = PairTask(tools, stage, 0)
    batches = trainer.batches(0)[:count]
    return [trainer.step(batch, 0, at).loss for at, batch in enumerate(batches)], trainer


def test_with_a_of_zero_both_views_lose_the_same(
    registry: Registry, data: TrainingData, base: Path
) -> None:
    name = "t-biencoder/dual-random-id"
    losses: dict[str, list[float]] = {}
    for mode in ("base", "only_prime", "both"):
        given = small(name, base, {"train": {"loss_mode": mode}})
        losses[mode], trainer = steps(registry, data, given, 2)
        assert (trainer.ascent is None) is (mode == "base")
    assert losses["only_prime"][0] == losses["base"][0]
    assert losses["both"][0] == pytest.approx(2 * losses["base"][0], rel=1e-6)
    # From the second step on A makes it harder.
    assert losses["only_prime"][1] != losses["base"][1]


def test_a_stays_in_its_ball_and_has_a_matrix_for_each_domain(
    registry: Registry, data: TrainingData, base: Path
) -> None:
    changes = {"per_domain": True, "epsilon": 0.05}
    given = small("t-biencoder/dual-random-id", base, {"train": {"transformation": changes}})
    _, trainer = steps(registry, data, given, 8)
    transformation = trainer._tools.model.transformation
    assert transformation is not None
    norms = transformation.norms()
    assert [len(norms[side]) for side in ("mention", "entity")] == [2, 2]
    assert max(max(found) for found in norms.values()) <= 0.05
    assert norms["mention"][0] == pytest.approx(0.05, rel=1e-3)


def test_the_curve_tells_both_losses_and_how_far_a_moves_states(
    registry: Registry, data: TrainingData, base: Path
) -> None:
    """A random A makes the loss another one at once, and its share in the states is known."""
    change = {"init": "gaussian", "epsilon": 2.0}
    given = small("t-biencoder/dual-random-id", base, {"train": {"transformation": change}})
    plain = small("t-biencoder/dual-random-id", base, {"train": {"loss_mode": "base"}})
    stage = make_plan(data, given, "TS")[0]
    scorer = registry.create("scorer", given.model.scorer, given.model.scorer_settings)
    trainer = PairTask(Tools(made(given), scorer, data, registry, Team("cpu"), 0), stage, 0)
    batch = trainer.batches(0)[0]
    done = trainer.step(batch, 0, 0)
    (base_loss,), _ = steps(registry, data, plain, 1)
    assert len(done.views) == 2
    assert done.views[0] == pytest.approx(base_loss, rel=1e-6)
    assert done.views[1] != pytest.approx(base_loss, rel=1e-3)
    assert sum(done.views) == pytest.approx(done.loss)
    assert trainer.ascent is not None
    facts = trainer.ascent.measures()
    assert facts["norm"]["mention"] == pytest.approx(2.0, rel=1e-2)
    # Of a random matrix the mean share is its norm over the square root of the width.
    assert facts["moved"]["entity"] == pytest.approx(2.0 / made(given).dim ** 0.5, rel=0.5)


def test_with_several_ascents_a_climbs_first_and_the_towers_move_once(
    registry: Registry, data: TrainingData, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three ascents by hand with the towers still, then one descent with A where it is."""
    change = {"ascent_steps": 3, "epsilon": 1.0}
    given = small("t-biencoder/dual-random-id", base, {"train": {"transformation": change}})
    (loss,), trainer = steps(registry, data, given, 1)
    alone = small(
        "t-biencoder/dual-random-id", base, {"train": {"transformation": {"epsilon": 1.0}}}
    )
    stage = make_plan(data, alone, "TS")[0]
    scorer = registry.create("scorer", alone.model.scorer, alone.model.scorer_settings)
    by_hand = PairTask(Tools(made(alone), scorer, data, registry, Team("cpu"), 0), stage, 0)
    batch = by_hand.batches(0)[0]
    assert by_hand.ascent is not None
    losses = []
    for _ in range(3):
        losses.append(sum(by_hand._gradients(batch, 0, 0)))
        by_hand.optimiser.zero_grad()
        by_hand.ascent.step()
    # L stays as it is while the towers stand still, so L' is what climbs.
    assert losses == sorted(losses)
    assert len(set(losses)) == 3
    # A's turn is over: with one ascent it would have it after the towers'.
    monkeypatch.setattr(by_hand.ascent, "step", by_hand.ascent.stay)
    assert by_hand.step(batch, 0, 0).loss == loss
    assert loss > losses[-1]
    wanted = dict(by_hand._tools.model.named_parameters())
    for name, value in trainer._tools.model.named_parameters():
        torch.testing.assert_close(value, wanted[name], rtol=0, atol=0)
        assert value.requires_grad == wanted[name].requires_grad
