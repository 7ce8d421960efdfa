"""The mean scorer: the means of both sides' tokens (Pooling Mean of AMH)."""

from __future__ import annotations

from torch import Tensor

from kglink.plugins import Encoded
from kglink_plugins.scorers.settings import ScorerSettings
from kglink_plugins.scorers.vectors import full_precision, mean_states, products


class MeanScorer:
    """Compares the means of all tokens; padding is no token."""

    def __init__(self, settings: ScorerSettings | None = None) -> None:
        self._settings = settings or ScorerSettings()

    def pool(self, batch: Encoded) -> Encoded:
        """One vector of each text."""
        return mean_states(batch)

    def score(self, mentions: Encoded, entities: Encoded) -> Tensor:
        """A (mentions, entities) matrix; larger is closer."""
        with full_precision(mentions.states):
            return products(mean_states(mentions), mean_states(entities), self._settings.metric)
