"""Stage O: the loss of pairs by hand, what is no negative, and the tower that stays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from kglink.models.bi_encoder import BiEncoder
from kglink.plugins import Registry
from kglink.records import EntityId, Overlap
from kglink.store import Store
from kglink.training import Recipe
from kglink.training.batch import overlap_masks
from kglink.training.data import KBChoice, TrainingData, prepare
from kglink.training.pairs import PairTask, Tools
from kglink.training.processes import Team
from kglink.training.recipe import OverlapSection
from kglink.training.stages import make_plan
from store_support import entity, job
from training_steps import made, one_thread
from training_world import small

pytest_plugins = ["step_fixtures"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def test_the_overlap_loss_of_two_pairs_by_hand(registry: Registry) -> None:
    scores = torch.tensor([[2.0, 1.0], [0.5, 3.0]])
    positive = torch.eye(2, dtype=torch.bool)
    loss = registry.create("objective", "overlap").loss(scores, positive)
    first = -2 * 2.0 + math.log(math.exp(2) + math.e) + math.log(math.exp(2) + math.exp(0.5))
    second = -2 * 3.0 + math.log(math.exp(0.5) + math.exp(3)) + math.log(math.e + math.exp(3))
    assert float(loss) == pytest.approx((first + second) / 2, rel=1e-6)


def overlapping(
    names: list[tuple[str, str]], recipe: Recipe, model: BiEncoder, folder: Path
) -> TrainingData:
    """Two KBs of three entities each, rows 0 to 2 and 3 to 5, with these overlaps."""
    with Store.open(f"sqlite:///{folder}/kglink.db") as store:
        for kb in ("left", "right"):
            store.ingest(job(kb, fingerprint=kb), [entity(str(n)) for n in range(3)])
        pairs = [Overlap(EntityId("left", a), EntityId("right", b), 0.9) for a, b in names]
        store.save_overlaps("left", "right", pairs)
        given = KBChoice(("left",), ("right",))
        return prepare(folder / "data", store, recipe, given, model.inputs)


def test_an_entity_that_stands_twice_is_no_negative(
    recipe: Recipe, model: BiEncoder, tmp_path: Path
) -> None:
    """Both l0 and l2 are r0; l1 is r1 and r2."""
    names = [("0", "0"), ("1", "1"), ("1", "2"), ("2", "0")]
    data = overlapping(names, recipe, model, tmp_path)
    assert data.pairs.tolist() == [[0, 3], [1, 4], [1, 5], [2, 3]]
    masked, positive = overlap_masks(data.pairs, data)
    assert positive.tolist() == np.eye(4, dtype=bool).tolist()
    assert masked.astype(int).tolist() == [
        [0, 0, 0, 1],
        [0, 0, 1, 0],
        [0, 1, 0, 0],
        [1, 0, 0, 0],
    ]


def test_an_overlap_that_is_not_in_the_batch_is_no_negative(
    recipe: Recipe, model: BiEncoder, tmp_path: Path
) -> None:
    """In a batch of l0-r0 and l1-r1, l0 is r1 as well; nothing is said of l1 and r0."""
    data = overlapping([("0", "0"), ("0", "1"), ("1", "1")], recipe, model, tmp_path)
    masked, _ = overlap_masks(data.pairs[[0, 2]], data)
    assert masked.tolist() == [[False, True], [False, False]]


def test_stage_o_leaves_the_mentions_tower_alone(
    registry: Registry, data: TrainingData, base: Path
) -> None:
    whole = small("joint/tos", base)
    model = made(whole)
    stage = make_plan(data, whole, "O")[0]
    scorer = registry.create("scorer", "dual")
    trainer = PairTask(Tools(model, scorer, data, registry, Team("cpu"), 0), stage, 0)
    before = {name: value.clone() for name, value in model.named_parameters()}
    batch = trainer.batches(0)[0]
    pairs = data.pairs[batch.parts[0]]
    model.eval()
    with torch.no_grad():
        sides = [
            model.encode([np.array(data.pool.tokens[row]) for row in pairs[:, side]], "entity")
            for side in (0, 1)
        ]
    scores = scorer.score(*sides)
    masked, positive = (torch.from_numpy(cells) for cells in overlap_masks(pairs, data))
    wanted = registry.create("objective", "overlap").loss(
        scores.masked_fill(masked, -torch.inf), positive
    )
    assert trainer.step(batch, 0, 0).loss == pytest.approx(float(wanted), rel=1e-4)
    moved = {name for name, v in model.named_parameters() if not v.equal(before[name])}
    assert moved
    assert all(name.startswith("entity.") for name in moved)
    assert isinstance(stage.section, OverlapSection)
