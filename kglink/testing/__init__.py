"""Tools for tests: contracts that a plugin must hold to.

The names are loaded when they are first used: a KB adapter's tests need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kglink.testing.contracts.base import PluginContract
    from kglink.testing.contracts.detector import DetectorContract
    from kglink.testing.contracts.exporter import ExporterContract
    from kglink.testing.contracts.index import IndexBackendContract
    from kglink.testing.contracts.kb import KBAdapterContract
    from kglink.testing.contracts.objective import ObjectiveContract, ScorerContract
    from kglink.testing.contracts.pair_evidence import PairEvidenceContract
    from kglink.testing.contracts.ranking import (
        CandidateEvidenceContract,
        ClustererContract,
        RerankerContract,
    )
    from kglink.testing.contracts.sampler import SamplerContract

__all__ = [
    "CandidateEvidenceContract",
    "ClustererContract",
    "DetectorContract",
    "ExporterContract",
    "IndexBackendContract",
    "KBAdapterContract",
    "ObjectiveContract",
    "PairEvidenceContract",
    "PluginContract",
    "RerankerContract",
    "SamplerContract",
    "ScorerContract",
]

#: The modules of these names, those that load torch last.
_MODULES = (
    *("base", "kb", "detector", "exporter", "ranking", "pair_evidence", "index"),
    *("objective", "sampler"),
)


if not TYPE_CHECKING:  # else a type checker would take any name for a public one

    def __getattr__(name: str) -> object:
        """Load a contract from its module."""
        if name not in __all__:
            raise AttributeError(f"module 'kglink.testing' has no attribute {name!r}")
        names = (vars(import_module(f"kglink.testing.contracts.{one}")) for one in _MODULES)
        return next(found[name] for found in names if name in found)


def __dir__() -> list[str]:
    """The public names and the module's own."""
    return sorted({*globals(), *__all__})
