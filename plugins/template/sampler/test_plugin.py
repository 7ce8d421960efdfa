"""The sampler holds to the contract of all samplers."""

from __future__ import annotations

import numpy as np
from kglink_myplugin.plugin import UniformSampler

from kglink.plugins import PluginSettings, SamplerBatch, SamplerPool
from kglink.testing import SamplerContract


class TestUniform(SamplerContract):
    """Run by pytest: every check of the contract."""

    plugin = "myvendor/myplugin"


def test_every_allowed_row_is_drawn_in_time() -> None:
    """Of five rows, of which one is right, each other one comes first now and then."""
    pool, batch = SamplerPool(np.zeros(5, np.int64)), SamplerBatch([frozenset({2})])
    sampler, rng = UniformSampler(PluginSettings()), np.random.default_rng(0)
    first = {int(sampler.sample(pool, batch, 1, rng)[0, 0]) for _ in range(100)}
    assert first == {0, 1, 3, 4}
