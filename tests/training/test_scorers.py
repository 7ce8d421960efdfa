"""The scorers: by their formulas, by hand, in full precision, each mention's own entities."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType

import pytest
import torch
from torch import Tensor

from kglink.plugins import Encoded, PoolingScorer, Scorer
from kglink.testing import ScorerContract
from kglink_plugins import scorers
from kglink_plugins.plugin import DualSettings, ScorerSettings
from kglink_plugins.scorers import DualScorer, SumOfMaxScorer

COSINE = MappingProxyType({"metric": "cosine"})


def dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def cosine(left: list[float], right: list[float]) -> float:
    return dot(left, right) / math.sqrt(dot(left, left) * dot(right, right))


def average(tokens: list[list[float]]) -> list[float]:
    return [sum(column) / len(tokens) for column in zip(*tokens, strict=True)]


def best_sum(
    product: Callable[[list[float], list[float]], float], mention: Tensor, entity: Tensor
) -> float:
    return sum(max(product(one, other) for other in entity.tolist()) for one in mention.tolist())


class TestDual(ScorerContract):
    plugin = "kglink/dual"

    def expected_score(self, mention: Tensor, entity: Tensor) -> float:
        return dot(mention[0].tolist(), entity[0].tolist())


class TestDualOfMeansByCosine(ScorerContract):
    plugin = "kglink/dual"
    settings = MappingProxyType({"pooling": "mean", "metric": "cosine"})

    def expected_score(self, mention: Tensor, entity: Tensor) -> float:
        return cosine(average(mention.tolist()), average(entity.tolist()))


class TestMean(ScorerContract):
    plugin = "kglink/mean"

    def expected_score(self, mention: Tensor, entity: Tensor) -> float:
        return dot(average(mention.tolist()), average(entity.tolist()))


class TestMeanByCosine(ScorerContract):
    plugin = "kglink/mean"
    settings = COSINE

    def expected_score(self, mention: Tensor, entity: Tensor) -> float:
        return cosine(average(mention.tolist()), average(entity.tolist()))


class TestSumOfMax(ScorerContract):
    plugin = "kglink/sum_of_max"

    def expected_score(self, mention: Tensor, entity: Tensor) -> float:
        return best_sum(dot, mention, entity)


class TestSumOfMaxByCosine(ScorerContract):
    plugin = "kglink/sum_of_max"
    settings = COSINE

    def expected_score(self, mention: Tensor, entity: Tensor) -> float:
        return best_sum(cosine, mention, entity)


SCORERS: list[Scorer] = [
    DualScorer(),
    DualScorer(DualSettings(pooling="mean", metric="cosine")),
    DualScorer(DualSettings(pooling="mean")),
    SumOfMaxScorer(),
    SumOfMaxScorer(ScorerSettings(metric="cosine")),
]


def texts(*tokens: list[list[float]]) -> Encoded:
    """Texts of these tokens, padded with zeros."""
    longest = max(len(text) for text in tokens)
    states = torch.zeros(len(tokens), longest, len(tokens[0][0]))
    mask = torch.zeros(len(tokens), longest, dtype=torch.bool)
    for row, text in enumerate(tokens):
        states[row, : len(text)] = torch.tensor(text)
        mask[row, : len(text)] = True
    return Encoded(states, mask)


def random_texts(count: int, length: int, seed: int, scale: float = 1.0) -> Encoded:
    generator = torch.Generator().manual_seed(seed)
    states = scale * torch.randn(count, length, 16, generator=generator)
    mask = torch.arange(length) <= torch.arange(count)[:, None] % length
    return Encoded(states, mask)


def test_all_three_by_hand() -> None:
    mention = texts([[1.0, 0.0], [0.0, 2.0]])
    entities = texts([[3.0, 1.0], [-1.0, 4.0]], [[-3.0, -1.0]])
    assert DualScorer().score(mention, entities).tolist() == [[3, -3]]
    # (.5, 1) with (1, 2.5) and with (-3, -1)
    assert DualScorer(DualSettings(pooling="mean")).score(mention, entities).tolist() == [[3, -2.5]]
    # max(3, -1) + max(2, 8), and -3 - 2: the second entity has one token
    assert SumOfMaxScorer().score(mention, entities).tolist() == [[11, -5]]


def test_padding_is_never_the_best_token() -> None:
    mention, entities = texts([[1.0, 0.0]]), texts([[-3.0, 0.0]], [[1.0, 1.0], [2.0, 2.0]])
    assert SumOfMaxScorer().score(mention, entities).tolist() == [[-3, 2]]


def test_a_mentions_padding_adds_nothing() -> None:
    mentions = texts([[1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]])
    mentions.states[0, 1] = 50.0
    entity = texts([[2.0, 0.0]])
    assert SumOfMaxScorer().score(mentions, entity).tolist() == [[2], [4]]


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda scorer: type(scorer).__name__)
def test_half_precision_is_scored_in_full(scorer: Scorer) -> None:
    mentions, entities = random_texts(5, 6, 1, 10.0), random_texts(4, 7, 2, 10.0)
    half = [Encoded(side.states.bfloat16(), side.mask) for side in (mentions, entities)]
    wanted = scorer.score(*(Encoded(side.states.float(), side.mask) for side in half))
    assert wanted.dtype == torch.float32
    torch.testing.assert_close(scorer.score(*half), wanted, rtol=0, atol=0)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(scorer.score(*half), wanted, rtol=0, atol=0)
    double = [Encoded(side.states.double(), side.mask) for side in half]
    torch.testing.assert_close(scorer.score(*double), wanted.double(), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda scorer: type(scorer).__name__)
def test_gradients_of_own_candidates_are_those_of_the_matrix(scorer: Scorer) -> None:
    sides = random_texts(3, 4, 3), random_texts(5, 4, 4)
    own = torch.tensor([[0, 4], [1, 1], [3, 2]])
    gradients = []
    for vmapped in (False, True):
        mentions, entities = (
            Encoded(side.states.clone().requires_grad_(), side.mask) for side in sides
        )
        if vmapped:
            scores = torch.func.vmap(
                lambda one, mask, others, masks: scorer.score(
                    Encoded(one[None], mask[None]), Encoded(others, masks)
                )[0]
            )(*mentions, entities.states[own], entities.mask[own])
        else:
            scores = scorer.score(mentions, entities).gather(1, own)
        (scores * torch.arange(1.0, 7.0).view(3, 2)).sum().backward()  # type: ignore[no-untyped-call]  # torch does not type it
        gradients.append((mentions.states.grad, entities.states.grad))
    for plain, mapped in zip(*gradients, strict=True):
        torch.testing.assert_close(mapped, plain)


def test_vmap_over_mentions_alone() -> None:
    mentions, entities = random_texts(3, 4, 5), random_texts(5, 4, 6)
    for scorer in SCORERS:
        one_by_one = torch.func.vmap(
            lambda states, mask, scorer=scorer: scorer.score(
                Encoded(states[None], mask[None]), entities
            )[0]
        )(*mentions)
        torch.testing.assert_close(one_by_one, scorer.score(mentions, entities))


def test_sum_of_max_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    mentions, entities = random_texts(7, 5, 7), random_texts(6, 3, 8)
    whole = SumOfMaxScorer().score(mentions, entities)
    monkeypatch.setattr(scorers, "_MOST_PRODUCTS", 2 * 5 * 6 * 3)
    torch.testing.assert_close(SumOfMaxScorer().score(mentions, entities), whole)
    none = Encoded(mentions.states[:0], mentions.mask[:0])
    assert SumOfMaxScorer().score(none, entities).shape == (0, 6)


def test_cosine_knows_no_length() -> None:
    mentions, entities = random_texts(3, 4, 9), random_texts(4, 4, 10)
    longer = Encoded(7 * mentions.states, mentions.mask)
    scorer = DualScorer(DualSettings(metric="cosine", pooling="mean"))
    scores = scorer.score(mentions, entities)
    assert float(scores.abs().max()) <= 1 + 1e-6
    torch.testing.assert_close(scorer.score(longer, entities), scores)


def test_who_reads_one_vector_says_so() -> None:
    assert isinstance(DualScorer(), PoolingScorer)
    assert isinstance(DualScorer(DualSettings(pooling="mean")), PoolingScorer)
    assert not isinstance(SumOfMaxScorer(), PoolingScorer)
    mean = DualScorer(DualSettings(pooling="mean"))
    assert mean.pool(random_texts(3, 4, 11)).states.shape == (3, 1, 16)
