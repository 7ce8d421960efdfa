"""Draws negatives from all entities, each with the same chance.

Use it: kglink finetune --set train.sampler=myvendor/myplugin --set train.negatives=5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink.plugins import PluginSettings, Register, SamplerBatch, SamplerPool, hookimpl

if TYPE_CHECKING:
    import numpy as np

    from kglink.plugins import IntArray


class UniformSampler:
    """Draws without looking at vectors or scores."""

    by_score = False
    in_batch = False

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """For each mention ``k`` rows of the pool that are not forbidden; -1 where none is left."""
        import numpy as np

        rows = np.arange(len(pool))
        drawn = np.full((len(batch.gold), k), -1, dtype=np.int64)
        for mention in range(len(batch.gold)):
            allowed = np.setdiff1d(rows, list(batch.forbidden(mention)))
            chosen = rng.permutation(allowed)[:k]
            drawn[mention, : len(chosen)] = chosen
        return drawn


@hookimpl
def register_samplers(register: Register) -> None:
    """Offer the sampler."""
    register("myvendor/myplugin", UniformSampler, summary="Any entity, all with the same chance")
