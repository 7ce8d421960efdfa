"""Sum of max: each token of a mention finds its best token of the entity (SOM)."""

from __future__ import annotations

import torch
from torch import Tensor

from kglink.plugins import Encoded, SumOfMaxRule
from kglink_plugins.plugin import ScorerSettings
from kglink_plugins.scorers.vectors import full_precision, measured, widened

#: Products of two tokens that are held at once, 256 MiB of them.
_MOST_PRODUCTS = 1 << 26


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
