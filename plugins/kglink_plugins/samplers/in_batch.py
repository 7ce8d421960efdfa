"""The right answers of a batch's other mentions: BLINK's negatives, and Random of AMH."""

from __future__ import annotations

import numpy as np

from kglink.plugins import PluginSettings, SamplerBatch, SamplerPool
from kglink_plugins.samplers.draw import IntArray, draw, padded
from kglink_plugins.samplers.scope import batch_golds, by_mention


class InBatch:
    """Draws from the right answers of the batch's other mentions; with a large ``k``, takes all."""

    by_score, in_batch = False, True

    def __init__(self, settings: PluginSettings | None = None) -> None:
        pass

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """New negatives on every visit."""
        rows = by_mention(batch_golds(pool, batch))
        drawn = (draw(own, batch.forbidden(mention), k, rng) for mention, own in enumerate(rows))
        return padded(drawn, len(rows), k)
