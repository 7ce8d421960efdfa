"""Random-ID of T-Biencoder: entities of the domain that the right answer is of."""

from __future__ import annotations

import numpy as np

from kglink.plugins import PluginSettings, SamplerBatch, SamplerPool
from kglink_plugins.samplers.draw import IntArray, draw, padded
from kglink_plugins.samplers.scope import by_mention, own_domains


class RandomInDomain:
    """Draws from the domains of a mention's right answers, each entity with the same chance."""

    by_score = in_batch = False

    def __init__(self, settings: PluginSettings | None = None) -> None:
        pass

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """New negatives on every visit."""
        rows = by_mention(own_domains(pool, batch))
        drawn = (draw(own, batch.forbidden(mention), k, rng) for mention, own in enumerate(rows))
        return padded(drawn, len(rows), k)
