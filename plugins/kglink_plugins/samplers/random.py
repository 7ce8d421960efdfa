"""Random negatives: Random-ID and Random-CD of T-Biencoder, BLINK's golds of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kglink.plugins import PluginSettings, SamplerBatch, SamplerPool
from kglink_plugins.samplers.draw import (
    IntArray,
    Scope,
    batch_golds,
    by_mention,
    draw,
    own_domains,
    padded,
    whole_pool,
)


class RandomCrossDomain:
    """Draws from all entities, each with the same chance."""

    by_score = in_batch = False
    scopes: Callable[[SamplerPool, SamplerBatch], Iterator[Scope]] = staticmethod(whole_pool)

    def __init__(self, settings: PluginSettings | None = None) -> None:
        pass

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """New negatives on every visit."""
        rows = by_mention(self.scopes(pool, batch))
        drawn = (draw(own, batch.forbidden(mention), k, rng) for mention, own in enumerate(rows))
        return padded(drawn, len(rows), k)


class RandomInDomain(RandomCrossDomain):
    """Draws from the domains of a mention's right answers, each entity with the same chance."""

    scopes = staticmethod(own_domains)


class InBatch(RandomCrossDomain):
    """Draws from the right answers of the batch's other mentions; with a large ``k``, takes all."""

    in_batch = True
    scopes = staticmethod(batch_golds)
