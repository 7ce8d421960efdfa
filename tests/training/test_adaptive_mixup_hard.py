"""Adaptive_mixup_hard: what is mixed, how its scores follow from others, where gradients go."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from kglink.plugins import Encoded, MixingSampler, Scorer
from kglink_plugins.plugin import DualSettings, MixupSettings
from kglink_plugins.samplers.adaptive_mixup_hard import AdaptiveMixupHard
from kglink_plugins.samplers.mixed import MixedP
from kglink_plugins.scorers import DualScorer, SumOfMaxScorer


def encoded(count: int, lengths: Sequence[int], seed: int, scale: float = 1.0) -> Encoded:
    generator = torch.Generator().manual_seed(seed)
    states = scale * torch.randn(count, max(lengths), 6, generator=generator)
    own = torch.tensor([lengths[row % len(lengths)] for row in range(count)])
    mask = torch.arange(max(lengths)) < own[:, None]
    states[~mask] = 55.0
    return Encoded(states, mask)


def mix(
    scorer: Scorer,
    mentions: Encoded,
    entities: Encoded,
    k: int,
    settings: MixupSettings | None = None,
    masked: Tensor | None = None,
) -> Tensor:
    """Mention i's right answer is entity i."""
    positive = torch.eye(len(mentions.mask), len(entities.mask), dtype=torch.bool)
    masked = torch.zeros_like(positive) if masked is None else masked
    return AdaptiveMixupHard(settings).mix(scorer, mentions, entities, positive, masked, k)


def weights(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """W of each mention by its formula, and the k hardest scores."""
    right = scores.diag()
    wrong = scores.masked_fill(torch.eye(*scores.shape, dtype=torch.bool), -torch.inf)
    highest = wrong.sort(descending=True, dim=1).values[:, :k]
    return right.exp() / (right.exp() + highest.exp().sum(1)), highest


SCORERS = [DualScorer(), DualScorer(DualSettings(pooling="mean"))]


def test_it_is_a_sampler_that_mixes() -> None:
    assert isinstance(AdaptiveMixupHard(), MixingSampler)
    assert not isinstance(MixedP(), MixingSampler)


@pytest.mark.parametrize("scorer", SCORERS, ids=["dual", "mean"])
@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_a_mixed_score_is_the_hard_one_plus_alpha_w_of_the_right_one(
    scorer: Scorer, alpha: float
) -> None:
    mentions, entities = encoded(5, [3, 1], 1), encoded(7, [4, 2, 1], 2)
    scores = scorer.score(mentions, entities)
    weight, highest = weights(scores, 3)
    got = mix(scorer, mentions, entities, 3, MixupSettings(alpha=alpha))
    torch.testing.assert_close(got[:, 0], scores.diag())
    wanted = highest + alpha * (weight * scores.diag())[:, None]
    torch.testing.assert_close(got[:, 1:], wanted)


@pytest.mark.parametrize("scorer", [*SCORERS, SumOfMaxScorer()], ids=["dual", "mean", "som"])
def test_alpha_zero_is_hard(scorer: Scorer) -> None:
    mentions, entities = encoded(4, [3, 1], 3), encoded(6, [1, 5, 2], 4)
    scores = scorer.score(mentions, entities)
    got = mix(scorer, mentions, entities, 4, MixupSettings(alpha=0))
    torch.testing.assert_close(got[:, 1:], weights(scores, 4)[1])


@pytest.mark.parametrize("scorer", SCORERS, ids=["dual", "mean"])
def test_the_complement_weighs_the_negative_as_well(scorer: Scorer) -> None:
    mentions, entities = encoded(4, [3, 1], 5), encoded(6, [4, 2], 6)
    scores = scorer.score(mentions, entities)
    weight, highest = weights(scores, 2)
    settings = MixupSettings(alpha=0.5, negative_weight="complement")
    got = mix(scorer, mentions, entities, 2, settings)
    share = 0.5 * weight[:, None]
    torch.testing.assert_close(got[:, 1:], share * scores.diag()[:, None] + (1 - share) * highest)


def test_the_temperature_of_w() -> None:
    mentions, entities = encoded(3, [2], 7), encoded(3, [2], 8)
    scores = DualScorer().score(mentions, entities)
    got = mix(DualScorer(), mentions, entities, 2, MixupSettings(alpha=1, temperature=0.25))
    weight, highest = weights(4 * scores, 2)
    torch.testing.assert_close(got[:, 1:], highest / 4 + (weight * scores.diag())[:, None])


def test_sum_of_max_mixes_position_by_position_over_both_masks() -> None:
    mention = Encoded(torch.tensor([[[1.0, 0.0]]]), torch.tensor([[True]]))
    gold, other = [[2.0, 0.0], [8.0, 0.0]], [[1.0, 5.0], [99.0, 99.0]]
    mask = torch.tensor([[True, True], [True, False]])
    got = mix(SumOfMaxScorer(), mention, Encoded(torch.tensor([gold, other]), mask), 1)
    # s_p = max(2, 8), s_n = 1; the mixture's tokens are 1 + .3 W 2 and, of gold alone, .3 W 8.
    weight = math.exp(8) / (math.exp(8) + math.exp(1))
    assert got.tolist() == [pytest.approx([8, max(1 + 0.6 * weight, 2.4 * weight)])]


@pytest.mark.parametrize("scorer", [*SCORERS, SumOfMaxScorer()], ids=["dual", "mean", "som"])
def test_large_scores_do_not_overflow(scorer: Scorer) -> None:
    sides = [encoded(4, [3], 9, 40.0), encoded(4, [3], 10, 40.0)]
    for side in sides:
        side.states.requires_grad_()
    assert float(scorer.score(*sides).detach().abs().max()) > 1000
    got = mix(scorer, sides[0], sides[1], 3, MixupSettings(w_grad=True))
    assert torch.isfinite(got).all()
    got.sum().backward()  # type: ignore[no-untyped-call]  # torch does not type it
    for side in sides:
        assert side.states.grad is not None
        assert torch.isfinite(side.states.grad).all()


def gradients(settings: MixupSettings) -> tuple[Tensor, Tensor, Tensor]:
    """Of one mixture's score: for the mention, its right answer and the wrong one."""
    torch.manual_seed(4)
    vectors = [torch.randn(6, requires_grad=True) for _ in range(3)]
    mention, right, wrong = vectors
    one = torch.ones(1, 1, dtype=torch.bool)
    entities = Encoded(torch.stack([right, wrong])[:, None], one.expand(2, 1))
    got = mix(DualScorer(), Encoded(mention[None, None], one), entities, 1, settings)
    made = torch.autograd.grad(got[0, 1], vectors)
    return made[0], made[1], made[2]


def test_which_way_gradients_go() -> None:
    torch.manual_seed(4)
    mention, right, wrong = (torch.randn(6) for _ in range(3))
    scores = torch.stack([mention @ right, mention @ wrong])
    weight = float(scores.softmax(0)[0])
    plain = gradients(MixupSettings(alpha=1))
    # W counts as a constant: the gradient of s_n + W s_p.
    torch.testing.assert_close(plain[0], wrong + weight * right)
    torch.testing.assert_close(plain[1], weight * mention)
    torch.testing.assert_close(plain[2], mention)
    through = gradients(MixupSettings(alpha=1, w_grad=True))
    slope = weight * (1 - weight) * float(scores[0])
    torch.testing.assert_close(through[1], (weight + slope) * mention)
    torch.testing.assert_close(through[2], (1 - slope) * mention)


def test_who_is_not_to_be_a_negative_is_not_mixed() -> None:
    mentions, entities = encoded(3, [2], 11), encoded(3, [2], 12)
    masked = torch.zeros(3, 3, dtype=torch.bool)
    masked[0, 1] = masked[1, 0] = masked[1, 2] = True
    got = mix(DualScorer(), mentions, entities, 4, MixupSettings(alpha=0), masked)
    scores = DualScorer().score(mentions, entities)
    assert got.shape == (3, 5)
    torch.testing.assert_close(got[0, 1], scores[0, 2])
    assert got.isneginf().tolist() == [
        [False, False, True, True, True],
        [False, True, True, True, True],
        [False, False, False, True, True],
    ]


def test_equal_scores_are_taken_by_their_place() -> None:
    # Entities 1 and 2 score alike, but only 1 has a second number, which nothing reads.
    states = torch.tensor([[[3.0, 0.0]], [[1.0, 7.0]], [[1.0, 0.0]]])
    entities = Encoded(states.requires_grad_(), torch.ones(3, 1, dtype=torch.bool))
    mention = Encoded(torch.tensor([[[1.0, 0.0]]]), torch.ones(1, 1, dtype=torch.bool))
    got = mix(DualScorer(), mention, entities, 1)
    got[0, 1].backward()  # type: ignore[no-untyped-call]  # torch does not type it
    assert states.grad is not None
    assert states.grad[1].tolist() == [[1, 0]]
    assert states.grad[2].tolist() == [[0, 0]]


def test_a_mention_without_a_right_answer_has_no_scores() -> None:
    mentions, entities = encoded(2, [2], 13), encoded(3, [2], 14)
    positive = torch.tensor([[True, False, False], [False, False, False]])
    got = AdaptiveMixupHard().mix(
        DualScorer(), mentions, entities, positive, torch.zeros_like(positive), 2
    )
    assert torch.isfinite(got[0]).all()
    assert got[1].isneginf().all()
