"""Hard-CD of T-Biencoder: the entities that score highest, whatever their domain."""

from __future__ import annotations

import numpy as np

from kglink.plugins import PluginSettings, SamplerBatch, SamplerPool
from kglink_plugins.samplers.draw import IntArray
from kglink_plugins.samplers.hardest import hardest
from kglink_plugins.samplers.scope import whole_pool


class HardCrossDomain:
    """Takes the highest scores of all entities."""

    by_score, in_batch = True, False

    def __init__(self, settings: PluginSettings | None = None) -> None:
        pass

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """The same negatives until the entities are encoded anew."""
        return hardest(pool, batch, whole_pool(pool, batch), k)
