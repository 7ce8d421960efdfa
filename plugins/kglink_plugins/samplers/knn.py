"""k-NN of ArboEL's baseline: the entities nearest to the mention, right ones left out."""

from __future__ import annotations

import numpy as np

from kglink.plugins import SamplerBatch, SamplerPool
from kglink_plugins.samplers.draw import IntArray
from kglink_plugins.samplers.hardest import hardest
from kglink_plugins.samplers.scope import own_domains, whole_pool
from kglink_plugins.samplers.settings import KnnSettings


class Knn:
    """Takes the nearest entities; a setting says whether types or KBs bound the search."""

    by_score, in_batch = True, False

    def __init__(self, settings: KnnSettings | None = None) -> None:
        self._scopes = own_domains if (settings or KnnSettings()).in_domain else whole_pool

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """The same negatives until the entities are encoded anew."""
        return hardest(pool, batch, self._scopes(pool, batch), k)
