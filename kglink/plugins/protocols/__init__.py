"""What a plugin must be able to do: one Protocol for each kind of plugin.

A plugin registers a *factory*, called as ``factory(settings)`` with an instance of the settings
class that it registered (exporters, KB adapters, samplers, ...). A detector's factory gets the
names of the space as well: ``factory(settings, names)``. The contract tests in `kglink.testing`
check what these signatures cannot say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink.plugins.protocols.base import Factory, PluginSettings
from kglink.plugins.protocols.detection import Detector, NameRow, Names
from kglink.plugins.protocols.ingest import KBAdapter, Sniff
from kglink.plugins.protocols.linking import Clusterer, Exporter, Reranker
from kglink.plugins.protocols.overlaps import (
    EntityPair,
    EntityVectors,
    PairedKBs,
    PairEvidence,
    Side,
)
from kglink.plugins.protocols.search import (
    IndexBackend,
    IndexPreset,
    IndexSettings,
    RowRange,
    VectorIndex,
)
from kglink.plugins.protocols.training import (
    Encoded,
    MixingSampler,
    Objective,
    PairScores,
    PoolingScorer,
    Sampler,
    SamplerBatch,
    SamplerPool,
    Scorer,
    SumOfMaxRule,
    TaughtObjective,
    TokenScorer,
)

if TYPE_CHECKING:
    from kglink.plugins.protocols.arrays import FloatArray as FloatArray
    from kglink.plugins.protocols.arrays import IntArray as IntArray
    from kglink.plugins.protocols.arrays import KeptVectors as KeptVectors

__all__ = [
    "Clusterer",
    "Detector",
    "Encoded",
    "EntityPair",
    "EntityVectors",
    "Exporter",
    "Factory",
    "IndexBackend",
    "IndexPreset",
    "IndexSettings",
    "KBAdapter",
    "MixingSampler",
    "NameRow",
    "Names",
    "Objective",
    "PairEvidence",
    "PairScores",
    "PairedKBs",
    "PluginSettings",
    "PoolingScorer",
    "Reranker",
    "RowRange",
    "Sampler",
    "SamplerBatch",
    "SamplerPool",
    "Scorer",
    "Side",
    "Sniff",
    "SumOfMaxRule",
    "TaughtObjective",
    "TokenScorer",
    "VectorIndex",
]
