"""Hard negatives are those of brute force, and neither golds nor counterparts are among them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from kglink.errors import ConfigError
from kglink.plugins import Encoded, Registry, RowRange
from kglink.training.batch import choose_golds
from kglink.training.data import TrainingData
from kglink.training.encoded_pool import EncodedPool
from kglink.training.pairs import PairTask, Tools
from kglink.training.processes import Team
from kglink.training.stages import Stage, make_plan
from training_steps import CPU, made, one_thread
from training_world import small

pytest_plugins = ["step_fixtures"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def mined(
    name: str,
    registry: Registry,
    data: TrainingData,
    base: Path,
    folder: Path,
    *,
    placed: bool = False,
    **changes: object,
) -> tuple[Stage, PairTask, EncodedPool]:
    """A stage whose negatives were looked for, and what they were looked for with."""
    whole = small("small", base, {"train": {"negatives": 5, **changes}})
    if name == "sum_of_max":
        whole = small("t-biencoder/plain-som-hard-id", base, {"train": {"negatives": 5, **changes}})
    model = made(whole)
    scorer = registry.create("scorer", whole.model.scorer)
    stage = make_plan(data, whole, "TS")[0]
    tools = Tools(model, scorer, data, registry, Team("cpu"), 0, folder=folder)
    trainer = PairTask(tools, stage, 0)
    pool = trainer._pool()
    if placed:
        pool.place(torch.device("cpu"))  # as on a GPU
    trainer.prepare(0)
    return stage, trainer, pool


@pytest.mark.parametrize("scorer", ["mean", "sum_of_max", "mean on a device"])
@pytest.mark.parametrize("sampler", ["hard_in_domain", "hard_cross_domain"])
@pytest.mark.parametrize("of", ["stage", "all"])
def test_hard_negatives_are_those_of_brute_force(
    scorer: str,
    sampler: str,
    of: str,
    registry: Registry,
    data: TrainingData,
    base: Path,
    tmp_path: Path,
) -> None:
    scorer, _, device = scorer.partition(" on ")
    changes = {"sampler": sampler, "negatives_from": of}
    stage, _, pool = mined(scorer, registry, data, base, tmp_path, placed=bool(device), **changes)
    for group in stage.groups:
        found = np.load(tmp_path / f"negatives-0-0-{group.letter}.npy")
        texts = [data.train.tokens[number] for number in group.items.tolist()]
        blocks = [scores for _, scores in pool.scores(texts, RowRange(0, 80), 80)]
        golds, excluded = choose_golds(data, group.rows, group.items)
        far = of == "all" and sampler == "hard_cross_domain"
        for row, scores, gold, own in zip(
            found, np.concatenate(blocks), golds.tolist(), excluded, strict=True
        ):
            there = range(80) if far else range(group.rows.start, group.rows.stop)
            best = sorted(set(there) - own, key=lambda one: (-scores[one], one))[:5]
            assert gold in own
            assert scores[row].tolist() == pytest.approx(scores[best].tolist(), rel=1e-5)
            assert not set(row.tolist()) & own


def test_a_scorer_without_a_rule_is_asked_and_says_the_same(
    registry: Registry, data: TrainingData, base: Path, tmp_path: Path
) -> None:
    whole = small("t-biencoder/som-random-id", base)
    scorer = registry.create("scorer", "sum_of_max")

    class Asked:
        def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
            return scorer.score(mentions, entities)

    texts = [data.train.tokens[number] for number in range(40)]
    found = []
    for one in (scorer, Asked()):
        pool = EncodedPool(made(whole), one, CPU, tmp_path / type(one).__name__, data.pool.tokens)
        found.append(np.concatenate([part for _, part in pool.scores(texts, RowRange(0, 80), 80)]))
    assert found[0].shape == (40, 80)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


@pytest.mark.parametrize("sampler", ["random_in_domain", "random_cross_domain", "hard_in_domain"])
def test_neither_golds_nor_counterparts_become_negatives(
    sampler: str, registry: Registry, data: TrainingData, base: Path, tmp_path: Path
) -> None:
    stage, trainer, _ = mined(
        *("mean", registry, data, base, tmp_path),
        sampler=sampler,
        negatives_from="all",
        negatives=60,
    )
    rng = np.random.default_rng(0)
    with_counterparts = 0
    for group in stage.groups:
        golds, excluded = choose_golds(data, group.rows, group.items, rng)
        drawn = trainer._negatives[group.letter].of(group.items, golds, excluded, rng)
        for row, own in zip(drawn.tolist(), excluded, strict=True):
            assert not set(row) & own
            with_counterparts += len(own) > 1
    assert with_counterparts > 10


def test_a_sampler_that_chooses_in_the_batch_has_own_columns(
    registry: Registry, data: TrainingData, base: Path
) -> None:
    wrong = small("amh/dual-amh", base, {"train": {"columns": "shared"}})
    scorer = registry.create("scorer", "dual")
    tools = Tools(made(wrong), scorer, data, registry, Team("cpu"), 0)
    with pytest.raises(ConfigError, match="chooses among the golds of the batch"):
        PairTask(tools, make_plan(data, wrong, "T")[0], 0)
    taught = small("amh/dual-amh", base, {"train": {"objective": "distillation"}})
    with pytest.raises(ConfigError, match="learns from a teacher"):
        PairTask(tools, make_plan(data, taught, "T")[0], 0)
