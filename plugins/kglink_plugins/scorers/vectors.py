"""Scorers that compare one vector of each text: DUAL of BLINK, Pooling Mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor

from kglink.plugins import Encoded
from kglink_plugins.plugin import DualSettings, Metric, ScorerSettings


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


class MeanScorer:
    """Compares the means of all tokens; padding is no token."""

    def __init__(self, settings: ScorerSettings | None = None) -> None:
        self._metric = (settings or ScorerSettings()).metric

    def pool(self, batch: Encoded) -> Encoded:
        """One vector of each text."""
        return mean_states(batch)

    def score(self, mentions: Encoded, entities: Encoded) -> Tensor:
        """A (mentions, entities) matrix; larger is closer."""
        with full_precision(mentions.states):
            left, right = (
                measured(self.pool(side).states[:, 0], self._metric)
                for side in (mentions, entities)
            )
            return left @ right.mT


class DualScorer(MeanScorer):
    """Compares the first states, or what the encoder has pooled."""

    def __init__(self, settings: DualSettings | None = None) -> None:
        settings = settings or DualSettings()
        super().__init__(settings)
        self._states = first_states if settings.pooling == "cls" else mean_states

    def pool(self, batch: Encoded) -> Encoded:
        """One vector of each text."""
        return self._states(batch)
