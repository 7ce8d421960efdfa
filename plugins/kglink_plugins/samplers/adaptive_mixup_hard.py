"""Adaptive_mixup_hard (AMH): negatives that are made, not drawn.

The highest-scoring right answers of the batch's other mentions, with a share of the mention's own
right answer mixed in. The share grows as the model tells the right one apart (Cai et al., 2023).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kglink.arrays import IntArray
from kglink.plugins import Encoded, PoolingScorer, SamplerBatch, SamplerPool, Scorer
from kglink.training.batch import own_scores, take
from kglink_plugins.plugin import MixupSettings
from kglink_plugins.samplers.draw import batch_golds
from kglink_plugins.samplers.mixed import hardest


class AdaptiveMixupHard:
    """Mixes the right answer into the hardest entities of the batch.

    ``V_strong = alpha W V_p + V_n`` with ``W = exp s_p / (exp s_p + sum over K of exp s_n)``. For
    scorers that compare one vector by dot product, its score is ``s_n + alpha W s_p``.
    """

    by_score = in_batch = True

    def __init__(self, settings: MixupSettings | None = None) -> None:
        self._settings = settings or MixupSettings()

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """What it would mix: the hardest of the batch, which by themselves are Hard of AMH."""
        return hardest(pool, batch, batch_golds(pool, batch), k)

    def mix(
        self,
        scorer: Scorer,
        mentions: Encoded,
        entities: Encoded,
        positive: Tensor,
        masked: Tensor,
        k: int,
    ) -> Tensor:
        """(mentions, 1 + k) scores: of the right answer, then of the mixtures, hardest first."""
        # Pooled first, then mixed: a mean over the union of two masks would be another vector.
        if isinstance(scorer, PoolingScorer):
            mentions, entities = scorer.pool(mentions), scorer.pool(entities)
        scores = scorer.score(mentions, entities)
        gold = positive.int().argmax(dim=1)
        others = scores.detach().masked_fill(positive | masked, -torch.inf)
        highest = others.sort(dim=1, descending=True, stable=True)
        chosen, missing = highest.indices[:, :k], highest.values[:, :k].isneginf()
        own = scores.gather(1, gold.unsqueeze(1))
        unmixed = scores.gather(1, chosen).masked_fill(missing, -torch.inf)
        logits = torch.cat([own, unmixed], dim=1) / self._settings.temperature
        weight = logits.softmax(dim=1)[:, 0]
        weight = weight if self._settings.w_grad else weight.detach()
        strong = self._mixture(entities, gold, chosen, weight)
        made = own_scores(scorer, mentions, strong).masked_fill(missing, -torch.inf)
        lacking = made.new_full((len(made), k - made.shape[1]), -torch.inf)
        row = torch.cat([own, made, lacking], dim=1)
        return row.masked_fill(~positive.any(dim=1, keepdim=True), -torch.inf)

    def _mixture(self, entities: Encoded, gold: Tensor, chosen: Tensor, weight: Tensor) -> Encoded:
        """The mixed entities, (mentions, k, length, dim): position by position."""
        states = entities.states.masked_fill(~entities.mask.unsqueeze(-1), 0.0)
        right = take(Encoded(states, entities.mask), gold.unsqueeze(1))
        wrong = take(Encoded(states, entities.mask), chosen)
        settings = self._settings
        share = settings.alpha * weight[:, None, None, None]
        rest = 1 - share if settings.negative_weight == "complement" else torch.ones_like(share)
        # With nothing mixed in, the right answer's positions are no tokens of the mixture.
        mask = wrong.mask | right.mask if settings.alpha else wrong.mask
        return Encoded(share * right.states + rest * wrong.states, mask)
