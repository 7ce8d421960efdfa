"""Plugins: what each kind must do, the hooks that register them, and the registry of all.

The names are loaded when they are first used: a module that only marks a hook loads no pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kglink.plugins.hooks import PROJECT, Register, RegisterKB, hookimpl
    from kglink.plugins.protocols import (
        Clusterer,
        Detector,
        Encoded,
        EntityPair,
        EntityVectors,
        Exporter,
        Factory,
        IndexBackend,
        IndexPreset,
        IndexSettings,
        KBAdapter,
        MixingSampler,
        NameRow,
        Names,
        Objective,
        PairedKBs,
        PairEvidence,
        PairScores,
        PluginSettings,
        PoolingScorer,
        Reranker,
        RowRange,
        Sampler,
        SamplerBatch,
        SamplerPool,
        Scorer,
        Side,
        Sniff,
        SumOfMaxRule,
        TaughtObjective,
        TokenScorer,
        VectorIndex,
    )
    from kglink.plugins.protocols.arrays import FloatArray as FloatArray
    from kglink.plugins.protocols.arrays import IntArray as IntArray
    from kglink.plugins.protocols.arrays import KeptVectors as KeptVectors
    from kglink.plugins.registry.discovery import find_modules
    from kglink.plugins.registry.guess import Guess
    from kglink.plugins.registry.hooks import hook_names
    from kglink.plugins.registry.loading import load_registry, registry_of
    from kglink.plugins.registry.plugin import (
        HOOK_OF_KIND,
        KINDS,
        WORD_OF_KIND,
        Kind,
        Plugin,
        Provider,
    )
    from kglink.plugins.registry.registry import Registry
    from kglink.plugins.registry.settings import setting_keys

__all__ = [
    "HOOK_OF_KIND",
    "KINDS",
    "PROJECT",
    "WORD_OF_KIND",
    "Clusterer",
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
    "KBAdapter",
    "Kind",
    "MixingSampler",
    "NameRow",
    "Names",
    "Objective",
    "PairEvidence",
    "PairScores",
    "PairedKBs",
    "Plugin",
    "PluginSettings",
    "PoolingScorer",
    "Provider",
    "Register",
    "RegisterKB",
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
    "TokenScorer",
    "VectorIndex",
    "find_modules",
    "hook_names",
    "hookimpl",
    "load_registry",
    "registry_of",
    "setting_keys",
]

#: Where a name is defined that is no protocol.
_MODULE_OF_NAME = {
    "PROJECT": "hooks",
    "Register": "hooks",
    "RegisterKB": "hooks",
    "hookimpl": "hooks",
    "HOOK_OF_KIND": "registry.plugin",
    "KINDS": "registry.plugin",
    "WORD_OF_KIND": "registry.plugin",
    "Kind": "registry.plugin",
    "Plugin": "registry.plugin",
    "Provider": "registry.plugin",
    "Guess": "registry.guess",
    "Registry": "registry.registry",
    "find_modules": "registry.discovery",
    "hook_names": "registry.hooks",
    "load_registry": "registry.loading",
    "registry_of": "registry.loading",
    "setting_keys": "registry.settings",
}


if not TYPE_CHECKING:  # else a type checker would take any name for a public one

    def __getattr__(name: str) -> object:
        """Load a name from the module that defines it."""
        if name not in __all__:
            raise AttributeError(f"module 'kglink.plugins' has no attribute {name!r}")
        module = _MODULE_OF_NAME.get(name, "protocols")
        return getattr(import_module(f"kglink.plugins.{module}"), name)
