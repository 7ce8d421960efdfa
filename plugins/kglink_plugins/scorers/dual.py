"""The dual scorer: one vector of each side (BLINK; DUAL of T-Biencoder and AMH)."""

from __future__ import annotations

from torch import Tensor

from kglink.plugins import Encoded
from kglink_plugins.scorers.settings import DualSettings
from kglink_plugins.scorers.vectors import first_states, full_precision, mean_states, products


class DualScorer:
    """Compares the first states, or what the encoder has pooled."""

    def __init__(self, settings: DualSettings | None = None) -> None:
        self._settings = settings or DualSettings()

    def pool(self, batch: Encoded) -> Encoded:
        """One vector of each text."""
        return first_states(batch) if self._settings.pooling == "cls" else mean_states(batch)

    def score(self, mentions: Encoded, entities: Encoded) -> Tensor:
        """A (mentions, entities) matrix; larger is closer."""
        with full_precision(mentions.states):
            return products(self.pool(mentions), self.pool(entities), self._settings.metric)
