"""The three steps of a transformer layer that torch does slowly on a CPU, for packed texts.

On a GPU torch's own functions are used. On a CPU each step is one autograd function: dropout by
16 random bits and one bitwise AND (torch's own takes fifty times longer), and attention with its
gradient written straight to where the tokens lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor
from torch.autograd import Function
from torch.nn.attention import SDPBackend, sdpa_kernel

from kglink.models.tower import Bucket

#: On a new GPU torch would choose cuDNN's function. It is compiled for each new shape, which takes
#: .1 s, and packed texts have new shapes in every batch.
_FUNCTIONS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_LEVELS = 1 << 15  # of the chance to keep a number: it is exact to 1/32768
Grads = tuple[Tensor | None, ...]


def dropout(values: Tensor, chance: float) -> Tensor:
    """Zero each number with this chance, and scale the others up."""
    if not chance:
        return values
    if values.is_cuda:
        return F.dropout(values, chance)
    dropped: Tensor = _Dropout.apply(values, chance)  # type: ignore[no-untyped-call]  # torch has no types here
    return dropped


def add_norm(
    added: Tensor,
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    chance: float,
) -> Tensor:
    """Layer norm, computed in fp32, of ``states`` plus ``added`` after dropout."""
    if states.is_cuda:
        summed = (states + dropout(added, chance)).float()
        return F.layer_norm(summed, weight.shape, weight, bias, eps).to(states.dtype)
    normed: Tensor = _AddNorm.apply(added, states, weight, bias, eps, chance)  # type: ignore[no-untyped-call]  # torch has no types here
    return normed


def attend(
    qkv: Tensor,
    buckets: Sequence[Bucket],
    heads: int,
    chance: float,
) -> Tensor:
    """Self-attention of each text; the queries are already scaled."""
    if qkv.is_cuda:
        return fused_attention(qkv, buckets, heads, chance)
    mixed: Tensor = _Attention.apply(qkv, buckets, heads, chance)  # type: ignore[no-untyped-call]  # torch has no types here
    return mixed


def fused_attention(qkv: Tensor, buckets: Sequence[Bucket], heads: int, chance: float) -> Tensor:
    """The same by torch's fused function, which is fast on a GPU."""
    width = qkv.shape[1] // 3
    parts = []
    # One split has one gradient, a concatenation; slices would fill a whole matrix each.
    sizes = [bucket.tokens.stop - bucket.tokens.start for bucket in buckets]
    for bucket, rows in zip(buckets, torch.split_with_sizes(qkv, sizes), strict=True):
        alone = Bucket(slice(None), bucket.texts, bucket.length, bucket.places, bucket.masked)
        query, key, value = _by_head(alone.pad(rows), heads)
        mask = None if bucket.masked is None else ~bucket.masked
        mixed = dot_product_attention(query, key, value, mask, chance)
        parts.append(alone.unpad(mixed.transpose(1, 2).reshape(bucket.texts, -1, width)))
    return torch.cat(parts)


def dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, chance: float = 0.0
) -> Tensor:
    """Attention of queries that are already scaled; on a GPU by any function but cuDNN's."""
    with sdpa_kernel(_FUNCTIONS) if query.is_cuda else nullcontext():
        return F.scaled_dot_product_attention(query, key, value, mask, chance, scale=1.0)


def _by_head(padded: Tensor, heads: int) -> Tensor:
    """(texts, length, 3 width) as query, key and value, each (texts, heads, length, head width)."""
    texts, length, _ = padded.shape
    return padded.view(texts, length, 3, heads, -1).permute(2, 0, 3, 1, 4).contiguous()


def _draw(like: Tensor, chance: float) -> tuple[Tensor, float]:
    """All bits set where a number is kept, none where not; and the scale of what is kept."""
    count, kept = like.numel(), round((1 - chance) * _LEVELS)
    # The generator makes 64 bits at a time; the lowest 15 of every 16 are a draw.
    random = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = random.view(torch.int16)[:count].view(like.shape)
    bits &= _LEVELS - 1
    bits -= kept
    bits >>= 15  # the sign of what is left, in every bit
    return bits, _LEVELS / kept


def _keep(values: Tensor, bits: Tensor) -> Tensor:
    """Zero what is not kept."""
    whole = torch.int16 if values.element_size() == 2 else torch.int32
    masked = values.contiguous().view(whole) & (bits if whole == torch.int16 else bits.to(whole))
    return masked.view(values.dtype)


class _Dropout(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, chance: float) -> Tensor:
        bits, ctx.scale = _draw(values, chance)
        ctx.save_for_backward(bits)
        return _keep(values, bits).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        return _keep(grads[0], ctx.saved_tensors[0]).mul_(ctx.scale), None


class _AddNorm(Function):
    @staticmethod
    def forward(
        ctx: Any,
        added: Tensor,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        eps: float,
        chance: float,
    ) -> Tensor:
        bits, ctx.scale = _draw(added, chance) if chance else (None, 1.0)
        kept = added if bits is None else _keep(added, bits)
        summed = torch.add(states, kept, alpha=ctx.scale)
        normed, mean, deviation = torch.native_layer_norm(summed, weight.shape, weight, bias, eps)
        ctx.save_for_backward(summed, mean, deviation, weight, bias, bits)
        return normed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        summed, mean, deviation, weight, bias, bits = ctx.saved_tensors
        wanted = [True, ctx.needs_input_grad[2], ctx.needs_input_grad[3]]
        grad, of_weight, of_bias = torch.ops.aten.native_layer_norm_backward(
            grads[0].contiguous(), summed, weight.shape, mean, deviation, weight, bias, wanted
        )
        of_added = grad if bits is None else _keep(grad, bits).mul_(ctx.scale)
        return of_added, grad, of_weight, of_bias, None, None


class _Attention(Function):
    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,
        buckets: Sequence[Bucket],
        heads: int,
        chance: float,
    ) -> Tensor:
        ctx.buckets, ctx.heads, ctx.scale = buckets, heads, 1.0
        out = qkv.new_empty(len(qkv), qkv.shape[1] // 3)
        saved: list[Tensor | None] = []
        for bucket in buckets:
            parts = _by_head(bucket.pad(qkv), heads).flatten(1, 2)
            query, key, value = parts
            weights = _weights(torch.bmm(query, key.transpose(1, 2)), bucket, heads)
            bits, ctx.scale = _draw(weights, chance) if chance else (None, 1.0)
            kept = weights if bits is None else _keep(weights, bits)
            mixed = torch.bmm(kept, value)
            out[bucket.tokens] = bucket.unpad(_by_text(mixed, bucket, heads))
            saved += [parts, weights, bits]
        ctx.save_for_backward(*saved)
        return out.mul_(ctx.scale) if chance else out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        grad = grads[0] * ctx.scale if ctx.scale != 1 else grads[0]
        out = grad.new_empty(len(grad), grad.shape[1] * 3)
        saved = ctx.saved_tensors
        for number, bucket in enumerate(ctx.buckets):
            (query, key, value), weights, bits = saved[3 * number : 3 * number + 3]
            shape = (bucket.texts, bucket.length, ctx.heads, -1)
            mixed = bucket.pad(grad).view(shape).transpose(1, 2).flatten(0, 1)
            kept = weights if bits is None else _keep(weights, bits)
            of_value = torch.bmm(kept.transpose(1, 2), mixed)
            of_kept = torch.bmm(mixed, value.transpose(1, 2))
            of_weights = of_kept if bits is None else _keep(of_kept, bits)
            scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
            of_query = torch.bmm(scores, key)
            of_key = torch.bmm(scores.transpose(1, 2), query)
            parts = [_by_text(part, bucket, ctx.heads) for part in (of_query, of_key, of_value)]
            out[bucket.tokens] = bucket.unpad(torch.cat(parts, dim=-1))
        return out, None, None, None


def _weights(scores: Tensor, bucket: Bucket, heads: int) -> Tensor:
    """Attention weights of each token over the tokens of its text."""
    if bucket.masked is not None:
        shape = (bucket.texts, heads, bucket.length, bucket.length)
        unseen = torch.zeros(bucket.masked.shape, dtype=scores.dtype, device=scores.device)
        scores.view(shape).add_(unseen.masked_fill_(bucket.masked, float("-inf")))
    return torch.softmax(scores, dim=-1)


def _by_text(values: Tensor, bucket: Bucket, heads: int) -> Tensor:
    """(texts heads, length, head width) as (texts, length, width)."""
    shape = (bucket.texts, heads, bucket.length, -1)
    return values.view(shape).transpose(1, 2).reshape(bucket.texts, bucket.length, -1)
