"""Packing and the CPU's own steps of a layer, against hand-made values and plain autograd."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from kglink.errors import UsageError
from kglink.models import kernels
from kglink.models.inputs import IdArray
from kglink.models.tower import encoded, join, pack, pool, split

LENGTHS = [5, 24, 22, 3, 13, 24, 9, 8, 8, 2, 17]


def texts_of(lengths: Sequence[int], vocabulary: int = 15) -> list[IdArray]:
    rng = np.random.default_rng(0)
    return [rng.integers(2, vocabulary, length).astype(np.int32) for length in lengths]


def test_packed_texts_lie_longest_first() -> None:
    batch = pack([np.array(ids, np.int32) for ids in ([1, 2], [3, 4, 5], [6], [7, 8, 9])])
    assert batch.ids.tolist() == [3, 4, 5, 7, 8, 9, 1, 2, 6]
    assert batch.steps.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 0]
    assert batch.rows.tolist() == [2, 0, 3, 1]
    assert batch.texts_of_tokens().tolist() == [1, 1, 1, 3, 3, 3, 0, 0, 2]
    assert [(bucket.texts, bucket.length) for bucket in batch.buckets] == [(2, 3), (1, 2), (1, 1)]
    assert all(bucket.places is None for bucket in batch.buckets)


def test_a_bucket_is_padded_by_a_fifth_at_most() -> None:
    batch = pack(texts_of([10, 8, 9, 7, 7]))
    assert [(bucket.texts, bucket.length) for bucket in batch.buckets] == [(3, 10), (2, 7)]
    values = torch.arange(41.0).unsqueeze(1)
    padded = batch.buckets[0].pad(values)
    assert padded[2].ravel().tolist() == [19, 20, 21, 22, 23, 24, 25, 26, 0, 0]
    assert torch.equal(batch.buckets[0].unpad(padded), values[:27])


def test_pooling_by_hand() -> None:
    batch = pack([np.array([1], np.int32), np.array([1, 1], np.int32)])
    states = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 12.0]])
    assert pool(states, batch, "mean").tolist() == [[5, 12], [2, 3]]
    assert pool(states, batch, "cls").tolist() == [[5, 12], [1, 2]]
    unit = encoded(states, batch, "mean", cosine=True)
    torch.testing.assert_close(unit.states[0, 0], torch.tensor([5 / 13, 12 / 13]))
    tokens = encoded(states, batch, "tokens")
    assert tokens.states.tolist() == [[[5, 12], [0, 0]], [[1, 2], [3, 4]]]
    assert tokens.mask.tolist() == [[True, False], [True, True]]


def test_joined_parts_are_split_again() -> None:
    batches = [pack(texts_of(lengths)) for lengths in ([3, 1], [5])]
    parts = [encoded(torch.randn(len(batch.ids), 4), batch, "tokens") for batch in batches]
    whole = join(parts)
    assert whole.mask.sum(dim=1).tolist() == [3, 1, 5]
    for part, again in zip(parts, split(whole, 2), strict=True):
        assert torch.equal(part.states, again.states)
        assert torch.equal(part.mask, again.mask)


@pytest.mark.parametrize("texts", [[], [np.array([], np.int32)]])
def test_nothing_to_encode_is_refused(texts: list[IdArray]) -> None:
    with pytest.raises(UsageError, match="cannot be encoded"):
        pack(texts)


# ---------------------------------------------------------------------------------- kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_zeroes_its_share_and_keeps_the_mean(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    values = torch.ones(400, 500, dtype=dtype, requires_grad=True)
    dropped = kernels.dropout(values, 0.1)
    assert float((dropped == 0).float().mean()) == pytest.approx(0.1, abs=0.003)
    assert float(dropped.detach().float().mean()) == pytest.approx(1, abs=0.005)
    torch.autograd.backward(dropped.sum())
    assert values.grad is not None
    assert torch.equal(values.grad, dropped.detach())
    assert not torch.equal(kernels.dropout(values, 0.1), dropped)
    assert kernels.dropout(values, 0.0) is values


def test_draws_do_not_depend_on_each_other() -> None:
    torch.manual_seed(0)
    kept = kernels.dropout(torch.ones(1 << 18), 0.5).reshape(-1, 4) != 0
    counts = torch.bincount(kept.int() @ torch.tensor([8, 4, 2, 1], dtype=torch.int32))
    assert counts.float().div(len(kept)).sub(1 / 16).abs().max() < 0.004


@pytest.mark.parametrize("chance", [0.0, 0.3])
def test_add_norm_equals_its_parts(chance: float) -> None:
    added, states = (torch.randn(6, 8, requires_grad=True) for _ in range(2))
    weight, bias = (torch.randn(8, requires_grad=True) for _ in range(2))
    torch.manual_seed(3)
    ours = kernels.add_norm(added, states, weight, bias, 1e-5, chance)
    torch.manual_seed(3)
    kept = kernels.dropout(added, chance)
    plain = torch.nn.functional.layer_norm(states + kept, (8,), weight, bias, 1e-5)
    same_with_gradients(ours, plain, [added, states, weight, bias])


def test_attention_equals_the_fused_function() -> None:
    batch = pack(texts_of(LENGTHS))
    qkv = torch.randn(len(batch.ids), 24, requires_grad=True)
    ours = kernels.attend(qkv, batch.buckets, 2, 0.0)
    same_with_gradients(ours, kernels.fused_attention(qkv, batch.buckets, 2, 0.0), [qkv])


def test_attention_with_dropout_equals_its_parts() -> None:
    batch = pack(texts_of([4, 4, 4]))
    qkv = torch.randn(12, 24, requires_grad=True)
    torch.manual_seed(5)
    ours = kernels.attend(qkv, batch.buckets, 2, 0.3)
    torch.manual_seed(5)
    query, key, value = qkv.view(3, 4, 3, 2, 4).permute(2, 0, 3, 1, 4)
    weights = torch.softmax(query @ key.transpose(-1, -2), dim=-1)
    kept = kernels.dropout(weights.flatten(0, 1), 0.3).view(weights.shape)
    assert (kept == 0).any()
    same_with_gradients(ours, (kept @ value).transpose(1, 2).reshape(12, 8), [qkv])


def same_with_gradients(ours: Tensor, theirs: Tensor, leaves: Sequence[Tensor]) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2))
    pairs = [torch.autograd.grad((value * weights).sum(), leaves) for value in (ours, theirs)]
    for one, other in zip(*pairs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
