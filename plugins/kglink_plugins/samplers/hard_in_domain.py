"""Hard-ID of T-Biencoder: the entities that score highest in the right answer's domain."""

from __future__ import annotations

import numpy as np

from kglink.plugins import PluginSettings, SamplerBatch, SamplerPool
from kglink_plugins.samplers.draw import IntArray
from kglink_plugins.samplers.hardest import hardest
from kglink_plugins.samplers.scope import own_domains


class HardInDomain:
    """Takes the highest scores within the domains of a mention's right answers."""

    by_score, in_batch = True, False

    def __init__(self, settings: PluginSettings | None = None) -> None:
        pass

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """The same negatives until the entities are encoded anew."""
        return hardest(pool, batch, own_domains(pool, batch), k)
