"""Frozen entities stay as they are, for one stage, and mentions learn as before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kglink.errors import ConfigError
from kglink.plugins import Registry
from kglink.training.data import TrainingData
from kglink.training.pairs import PairTask, Tools
from kglink.training.processes import Team
from kglink.training.recipe_files import load_recipe
from kglink.training.stages import make_plan
from training_steps import made, one_thread
from training_world import small

pytest_plugins = ["step_fixtures"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.mark.parametrize(
    ("name", "micro_batch"),
    [
        ("blink/zeshel-base", 0),
        ("blink/zeshel-base", 6),
        ("t-biencoder/som-random-id", 0),
        ("t-biencoder/som-random-id", 6),
    ],
)
def test_frozen_entities_stay_and_mentions_learn_as_before(
    registry: Registry,
    data: TrainingData,
    base: Path,
    name: str,
    micro_batch: int,
) -> None:
    changes = {"freeze_entities": True, "micro_batch": micro_batch}
    losses, models = [], []
    for told in (changes, {}):
        given = small(name, base, {"train": told})
        stage = make_plan(data, given, "T")[0]
        scorer = registry.create("scorer", given.model.scorer, given.model.scorer_settings)
        model = made(given)
        trainer = PairTask(Tools(model, scorer, data, registry, Team("cpu"), 0), stage, 0)
        batch = trainer.batches(0)[0]
        losses.append(trainer.step(batch, 0, 0).loss)
        models.append(model)
    frozen, free = models
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert not frozen.entity.training
    assert frozen.mention.training
    before = made(given)
    for part, value in frozen.entity.named_parameters():
        assert value.equal(before.entity.get_parameter(part))
        assert not value.requires_grad
    moved = 0
    for part, value in frozen.mention.named_parameters():
        torch.testing.assert_close(value, free.mention.get_parameter(part), rtol=1e-3, atol=2e-5)
        moved += not value.equal(before.mention.get_parameter(part))
    assert moved > 10


def test_what_is_frozen_is_of_one_stage(registry: Registry, data: TrainingData, base: Path) -> None:
    given = small("blink/zeshel-base-hard-frozen", base)
    free, frozen, overlaps = make_plan(data, given, "TO")
    scorer = registry.create("scorer", "dual")
    model = made(given)
    names = [name for name, value in model.entity.named_parameters() if value.requires_grad]
    assert names
    for stage, stays in ((free, False), (frozen, True), (overlaps, False)):
        PairTask(Tools(model, scorer, data, registry, Team("cpu"), 0), stage, 0)
        now = [name for name, value in model.entity.named_parameters() if value.requires_grad]
        assert now == ([] if stays else names)
        assert model.train().entity.training is not stays


def test_one_tower_for_both_sides_cannot_be_frozen_on_one() -> None:
    with pytest.raises(ConfigError, match=r"freeze_entities needs two towers: model\.shared"):
        load_recipe("default", {"train": {"freeze_entities": True}})
