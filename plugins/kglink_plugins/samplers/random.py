"""Random negatives: Random-ID and Random-CD of T-Biencoder, BLINK's golds of the batch."""

from __future__ import annotations

from collections.abc import Iterable

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


class RandomInDomain:
    """Draws from the domains of a mention's right answers, each entity with the same chance."""

    by_score = in_batch = False

    def __init__(self, settings: PluginSettings | None = None) -> None:
        pass

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """New negatives on every visit."""
        return _drawn(own_domains(pool, batch), batch, k, rng)


class RandomCrossDomain:
    """Draws from all entities, each with the same chance."""

    by_score = in_batch = False

    def __init__(self, settings: PluginSettings | None = None) -> None:
        pass

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """New negatives on every visit."""
        return _drawn(whole_pool(pool, batch), batch, k, rng)


class InBatch:
    """Draws from the right answers of the batch's other mentions; with a large ``k``, takes all."""

    by_score, in_batch = False, True

    def __init__(self, settings: PluginSettings | None = None) -> None:
        pass

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """New negatives on every visit."""
        return _drawn(batch_golds(pool, batch), batch, k, rng)


def _drawn(
    scopes: Iterable[Scope], batch: SamplerBatch, k: int, rng: np.random.Generator
) -> IntArray:
    rows = by_mention(scopes)
    drawn = (draw(own, batch.forbidden(mention), k, rng) for mention, own in enumerate(rows))
    return padded(drawn, len(rows), k)
