"""Plugins: what each kind must do, the hooks that register them, and the registry of all.

The names are loaded when they are first used: a module that only marks a hook loads no pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kglink.arrays import FloatArray as FloatArray
    from kglink.arrays import IntArray as IntArray
    from kglink.plugins.hooks import *
    from kglink.plugins.loading import *
    from kglink.plugins.protocols import *
    from kglink.plugins.protocols import KeptVectors as KeptVectors
    from kglink.plugins.registry import *
    from kglink.plugins.settings import *
    from kglink.plugins.training import *

__all__ = [
    "BUILTIN",
    "HOOKS",
    "HOOKS_OF_GROUP",
    "KINDS",
    "ONLY_VARIABLE",
    "PROJECT",
    "CandidateEvidence",
    "Clusterer",
    "DefaultWeights",
    "Detector",
    "Encoded",
    "EntityPair",
    "EntityVectors",
    "Exporter",
    "Factory",
    "Guess",
    "IndexBackend",
    "IndexPreset",
    "IndexSettings",
    "JudgingDetector",
    "KBAdapter",
    "KeepsFiles",
    "Kind",
    "MentionSampler",
    "MentionVectors",
    "MixingSampler",
    "NameRow",
    "Names",
    "NamesInParts",
    "Objective",
    "OffersSettings",
    "PairEvidence",
    "PairScores",
    "PairedKBs",
    "Plugin",
    "PluginHooks",
    "PluginKind",
    "PluginModule",
    "PluginSettings",
    "PluginWarning",
    "PoolingScorer",
    "Positives",
    "Provider",
    "ReadingDetector",
    "ReadsAnswers",
    "ReadsMentions",
    "Register",
    "Registry",
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
    "TellsAfterwards",
    "TokenScorer",
    "VectorIndex",
    "WritesRecords",
    "find_modules",
    "guarded",
    "hookimpl",
    "load_registry",
    "offered",
    "setting_keys",
]

#: The modules that define these names, the lightest first.
_MODULES = ("hooks", "training", "protocols", "loading", "settings", "registry")


if not TYPE_CHECKING:  # else a type checker would take any name for a public one

    def __getattr__(name: str) -> object:
        """Load a name from the module that defines it."""
        if name not in __all__:
            raise AttributeError(f"module 'kglink.plugins' has no attribute {name!r}")
        modules = (vars(import_module(f"kglink.plugins.{module}")) for module in _MODULES)
        return next(names[name] for names in modules if name in names)
