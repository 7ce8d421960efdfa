"""Columns of a step by hand: what is right, what is left out, and the loss over them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from kglink.plugins import Encoded, Registry
from kglink.training.batch import MentionBatch, column_scores, columns_of, mention_batch
from kglink.training.recipe import StageSection
from training_steps import one_thread

pytest_plugins = ["step_fixtures"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def section(**changes: object) -> StageSection:
    return StageSection.model_validate({"batch": 8, **changes})


def batch_of(
    golds: list[int], excluded: list[set[int]], negatives: list[list[int]]
) -> MentionBatch:
    others = [frozenset({gold} | more) for gold, more in zip(golds, excluded, strict=True)]
    numbers = np.arange(len(golds))
    drawn = np.array(negatives, np.int64).reshape(len(golds), -1)
    return mention_batch(numbers, np.array(golds), others, drawn)


def test_in_batch_columns_leave_out_what_is_right_as_well() -> None:
    # Mentions 0 and 1 mean 7; 5 is a counterpart of mention 2's gold 9.
    batch = batch_of([7, 7, 9, 5], [set(), set(), {5}, {9}], [[]] * 4)
    columns = columns_of(batch, section())
    assert batch.entities.tolist() == [5, 7, 9]
    assert batch.entities[columns.places].tolist() == [7, 7, 9, 5]
    assert columns.positive.tolist() == np.eye(4, dtype=bool).tolist()
    assert columns.masked.astype(int).tolist() == [
        [0, 1, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 1],
        [0, 0, 1, 0],
    ]
    faithful = columns_of(batch, section(mask_same_gold=False))
    assert not faithful.masked.any()


def test_own_columns_are_the_gold_and_the_negatives() -> None:
    batch = batch_of([7, 9], [set(), set()], [[1, 2], [7, -1]])
    columns = columns_of(batch, section(columns="own", negatives=2))
    assert batch.entities[columns.places[0]].tolist() == [7, 1, 2]
    assert batch.entities[columns.places[1, :2]].tolist() == [9, 7]
    assert columns.masked.tolist() == [[False] * 3, [False, False, True]]
    assert columns.positive.tolist() == [[True, False, False]] * 2


def test_both_columns_drop_a_negative_that_is_in_the_batch() -> None:
    batch = batch_of([7, 9], [set(), set()], [[1, 9], [7, -1]])
    columns = columns_of(batch, section(columns="both", negatives=2))
    assert columns.masked.tolist() == [
        [False, False, False, True],
        [False, False, True, True],
    ]
    assert columns.positive[:, :2].tolist() == [[True, False], [False, True]]


def test_shared_columns_are_all_entities_but_the_right_ones() -> None:
    batch = batch_of([7, 9], [{1}, set()], [[2, 3], [1, 7]])
    columns = columns_of(batch, section(columns="shared", negatives=2))
    assert batch.entities.tolist() == [1, 2, 3, 7, 9]
    assert columns.positive.astype(int).tolist() == [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    assert columns.masked.astype(int).tolist() == [[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]


def test_the_in_batch_loss_of_three_mentions_by_hand(registry: Registry) -> None:
    """Golds 7, 7, 9: a mention of 7 has one negative, a mention of 9 has 7 twice."""
    vectors = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]).unsqueeze(1)
    golds = torch.tensor([[2.0, 1.0], [0.5, 3.0]]).unsqueeze(1)  # of 7 and of 9
    sides = [Encoded(states, torch.ones(len(states), 1).bool()) for states in (vectors, golds)]
    batch = batch_of([7, 7, 9], [set(), set(), set()], [[]] * 3)
    columns = columns_of(batch, section())
    scorer = registry.create("scorer", "dual")
    scores = column_scores(scorer, sides[0], sides[1], columns)
    assert scores.tolist() == [
        [2.0, -math.inf, 0.5],
        [-math.inf, 2.0, 6.0],
        [3.0, 3.0, 3.5],
    ]
    loss = registry.create("objective", "nce").loss(scores, torch.from_numpy(columns.positive))
    terms = [
        -2 + math.log(math.exp(2) + math.exp(0.5)),
        -2 + math.log(math.exp(2) + math.exp(6)),
        -3.5 + math.log(2 * math.exp(3) + math.exp(3.5)),
    ]
    assert float(loss) == pytest.approx(sum(terms) / 3, rel=1e-6)


@pytest.mark.parametrize("scorer", ["dual", "mean", "sum_of_max"])
def test_own_columns_score_as_one_by_one(registry: Registry, scorer: str) -> None:
    rng = torch.Generator().manual_seed(2)
    tokens = scorer == "sum_of_max"
    mentions, entities = (
        Encoded(
            torch.randn(count, length, 4, generator=rng),
            torch.arange(length) < torch.randint(1, length + 1, (count, 1), generator=rng),
        )
        for count, length in ((3, 5 if tokens else 1), (6, 4 if tokens else 1))
    )
    batch = batch_of([3, 4, 3], [set()] * 3, [[1, 8], [0, -1], [6, 7]])
    assert len(batch.entities) == 7
    wide = Encoded(torch.cat([entities.states, entities.states[:1]]), entities.mask[[*range(6), 0]])
    columns = columns_of(batch, section(columns="own", negatives=2))
    made = registry.create("scorer", scorer)
    scores = column_scores(made, mentions, wide, columns)
    whole = made.score(mentions, wide)
    for row in range(3):
        for column in range(3):
            if columns.masked[row, column]:
                assert scores[row, column] == -math.inf
            else:
                wanted = whole[row, int(columns.places[row, column])]
                assert float(scores[row, column]) == pytest.approx(float(wanted), rel=1e-5)
