"""Scorers: one vector of each text (DUAL of BLINK, Pooling Mean), or all tokens (SOM)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor

from kglink.plugins import Encoded, SumOfMaxRule
from kglink_plugins.plugin import DualSettings, Metric, ScorerSettings

#: Products of two tokens that are held at once, 256 MiB of them.
_MOST_PRODUCTS = 1 << 26


@contextmanager
def full_precision(states: Tensor) -> Iterator[None]:
    """Autocast switched off: raw products of [CLS] reach hundreds, where bf16 has steps of 2."""
    with torch.autocast(states.device.type, enabled=False):
        yield


def widened(states: Tensor) -> Tensor:
    """At least float32."""
    return states.float() if states.dtype in (torch.bfloat16, torch.float16) else states


def first_states(batch: Encoded) -> Encoded:
    """The first state of each text, [CLS]."""
    return Encoded(widened(batch.states[:, :1]), batch.mask[:, :1])


def mean_states(batch: Encoded) -> Encoded:
    """The mean state of each text's tokens."""
    kept = widened(batch.states).masked_fill(~batch.mask.unsqueeze(-1), 0.0)
    counts = batch.mask.sum(dim=1).clamp(min=1)
    means = kept.sum(dim=1) / counts.unsqueeze(-1)
    return Encoded(means.unsqueeze(1), batch.mask.any(dim=1, keepdim=True))


def measured(states: Tensor, metric: Metric) -> Tensor:
    """States whose inner product is the metric."""
    return F.normalize(states, dim=-1) if metric == "cosine" else states


class DualScorer:
    """Compares one vector of each text: its first state, or the mean of its tokens, not of padding.

    The first state is also what an encoder has pooled.
    """

    def __init__(self, settings: DualSettings | None = None) -> None:
        settings = settings or DualSettings()
        self._metric = settings.metric
        self._states = first_states if settings.pooling == "cls" else mean_states

    def pool(self, batch: Encoded) -> Encoded:
        """One vector of each text."""
        return self._states(batch)

    def score(self, mentions: Encoded, entities: Encoded) -> Tensor:
        """A (mentions, entities) matrix; larger is closer."""
        with full_precision(mentions.states):
            left, right = (
                measured(self.pool(side).states[:, 0], self._metric)
                for side in (mentions, entities)
            )
            return left @ right.mT


class SumOfMaxScorer:
    """Adds up, over a mention's tokens, the best product with a token of the entity.

    ``f(m, e) = sum over i of max over j of m_i . e_j`` (T-Biencoder, section 3.1; AMH, eq. 5).
    Tokens alone: the code that both papers build on adds up padding as well, which makes a score
    depend on the batch, or on a fixed length.
    """

    def __init__(self, settings: ScorerSettings | None = None) -> None:
        self._settings = settings or ScorerSettings()

    @property
    def rule(self) -> SumOfMaxRule:
        """What exactly is added up."""
        return SumOfMaxRule(self._settings.metric == "cosine")

    def score(self, mentions: Encoded, entities: Encoded) -> Tensor:
        """A (mentions, entities) matrix; larger is closer."""
        with full_precision(mentions.states):
            left = self._tokens(mentions)
            right = self._tokens(entities)
            each = left.states.shape[1] * right.mask.numel()
            size = max(1, _MOST_PRODUCTS // max(1, each))
            starts = range(0, max(1, len(left.states)), size)
            parts = [
                _best_products(left.states[at : at + size], left.mask[at : at + size], right)
                for at in starts
            ]
            return torch.cat(parts)

    def _tokens(self, batch: Encoded) -> Encoded:
        return Encoded(measured(widened(batch.states), self._settings.metric), batch.mask)


def _best_products(states: Tensor, mask: Tensor, entities: Encoded) -> Tensor:
    """Some mentions against all entities."""
    flat = states.flatten(0, 1) @ entities.states.flatten(0, 1).mT
    products = flat.reshape(*mask.shape, *entities.mask.shape)
    # The gradient of max needs the place of the best alone, so the products are not kept.
    best: Tensor = products.masked_fill(~entities.mask, -torch.inf).max(dim=-1).values
    return best.masked_fill(~mask.unsqueeze(-1), 0.0).sum(dim=1)
