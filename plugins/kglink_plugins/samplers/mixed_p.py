"""Mixed-p: a share of hard negatives, the others drawn at random (Mixed-50 of AMH)."""

from __future__ import annotations

import numpy as np

from kglink.plugins import SamplerBatch, SamplerPool
from kglink_plugins.samplers.draw import IntArray, draw, padded
from kglink_plugins.samplers.hardest import hardest
from kglink_plugins.samplers.scope import batch_golds, by_mention, own_domains, whole_pool
from kglink_plugins.samplers.settings import MixedSettings

_SCOPES = {"batch": batch_golds, "domain": own_domains, "pool": whole_pool}


class MixedP:
    """Takes a share of highest scores, then draws from what is left."""

    def __init__(self, settings: MixedSettings | None = None) -> None:
        settings = settings or MixedSettings()
        self._p = settings.p
        self._scopes = _SCOPES[settings.among]
        self.in_batch = settings.among == "batch"
        self.by_score = settings.p > 0

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """The hard negatives of each mention, then the random ones."""
        scopes = list(self._scopes(pool, batch))
        # Half of an odd number counts as hard.
        wanted = int(np.floor(self._p * k + 0.5))
        empty = np.empty((len(batch.gold), 0), np.int64)
        hard = hardest(pool, batch, scopes, wanted) if wanted else empty
        drawn = []
        for mention, rows in enumerate(by_mention(scopes)):
            taken = hard[mention][hard[mention] >= 0]
            barred = batch.forbidden(mention).union(taken.tolist())
            rest = draw(rows, barred, k - wanted, rng)
            drawn.append(np.concatenate([taken, rest]))
        return padded(drawn, len(drawn), k)
