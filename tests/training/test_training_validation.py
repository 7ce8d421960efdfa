"""Recall after an epoch is that of a plain search, and of equal scores the smaller row is first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from kglink.evaluation.rankings import JOINT, JSON_KEYS, JUDGED_JOINT
from kglink.models.bi_encoder import BiEncoder
from kglink.plugins import Registry, RowRange
from kglink.training import Recipe
from kglink.training.data import TrainingData
from kglink.training.encoded_pool import EncodedPool
from kglink.training.recipe import SelectionSection
from kglink.training.validation import validate
from training_steps import CPU, made, one_thread
from training_world import small

pytest_plugins = ["step_fixtures"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def test_recall_is_that_of_a_plain_search(
    registry: Registry, data: TrainingData, recipe: Recipe, model: BiEncoder, tmp_path: Path
) -> None:
    pool = EncodedPool(model, registry.create("scorer", "mean"), CPU, tmp_path, data.pool.tokens)
    told = SelectionSection(metric="R@3", most_mentions=1000)
    recalls = validate(data, pool, told)
    mentions = pool.mention_vectors([data.valid.tokens[n] for n in range(len(data.valid))])
    entities = pool.vectors(RowRange(0, 80))
    assert entities is not None
    hits: dict[str, list[bool]] = {"atlas": [], "saga": [], JUDGED_JOINT: [], JOINT: []}
    of_kb = {"atlas": set(range(40)), "saga": set(range(40, 80))}
    for number, vector in enumerate(mentions):
        scores = entities @ vector
        gold = set(data.valid.golds[number].tolist())
        held = [kb for kb, rows in of_kb.items() if rows & gold]
        pools = {kb: of_kb[kb] for kb in held}
        pools[JUDGED_JOINT] = set().union(*pools.values())
        pools[JOINT] = set(range(80))
        for name, rows in pools.items():
            top = sorted(rows, key=lambda one: (-scores[one], one))[:3]
            hits[name].append(bool(set(top) & gold))
    assert recalls.mentions == {name: len(found) for name, found in hits.items()}
    for name, found in hits.items():
        assert recalls.recall(name)["R@3"] == pytest.approx(sum(found) / len(found))
    mean = sum(sum(hits[kb]) / len(hits[kb]) for kb in of_kb) / 2
    assert recalls.chosen(told) == pytest.approx(mean)
    for pool_of_all, key in JSON_KEYS.items():
        joint = told.model_copy(update={"pool": key})
        assert recalls.chosen(joint) == recalls.recall(pool_of_all)["R@3"]


def test_a_pool_is_searched_by_cosine_where_the_recipe_says_so(
    registry: Registry, data: TrainingData, base: Path, tmp_path: Path
) -> None:
    """Bosch: training by products, retrieval by cosine."""
    recipe = small("joint/tos", base)
    assert (recipe.model.metric, recipe.model.retrieval_metric) == ("dot", "cosine")
    model = made(recipe)
    pool = EncodedPool(model, registry.create("scorer", "dual"), CPU, tmp_path, data.pool.tokens)
    entities = pool.vectors(RowRange(0, 80))
    assert entities is not None
    np.testing.assert_allclose(np.linalg.norm(entities, axis=1), 1, rtol=1e-3)
    with torch.no_grad():
        trained = model.eval().encode([np.array(data.pool.tokens[0])], "entity").states
    assert float(trained.norm()) > 1.5


def test_of_equal_scores_the_smaller_row_comes_first() -> None:
    from kglink.training.validation import _rank

    scores = np.array([1, 3, 3, 3, 5, 0], np.float32)

    def rank(gold: list[int]) -> int:
        return _rank(scores, gold, [RowRange(0, 6)])

    assert [rank([row]) for row in range(6)] == [5, 2, 3, 4, 1, 6]
    assert rank([0, 3]) == 4
    assert _rank(scores, [3], [RowRange(2, 4), RowRange(5, 6)]) == 2
