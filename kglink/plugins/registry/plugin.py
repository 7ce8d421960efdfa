"""What the registry knows of a plugin: what it is, and who brought it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from kglink.plugins.protocols import Factory, PluginSettings, Sniff

Kind = Literal[
    "kb",
    "detector",
    "overlap-evidence",
    "scorer",
    "sampler",
    "objective",
    "index",
    "reranker",
    "clusterer",
    "exporter",
]

#: The hook that registers each kind, in the order in which kinds are listed.
HOOK_OF_KIND: Mapping[Kind, str] = MappingProxyType(
    {
        "kb": "register_kbs",
        "detector": "register_detectors",
        "overlap-evidence": "register_overlap_evidence",
        "scorer": "register_scorers",
        "sampler": "register_samplers",
        "objective": "register_objectives",
        "index": "register_index_backends",
        "reranker": "register_rerankers",
        "clusterer": "register_clusterers",
        "exporter": "register_exporters",
    }
)
KINDS: tuple[Kind, ...] = tuple(HOOK_OF_KIND)

#: What messages call each kind.
WORD_OF_KIND: Mapping[Kind, str] = MappingProxyType(
    {
        "kb": "KB adapter",
        "detector": "detector",
        "overlap-evidence": "overlap evidence",
        "scorer": "scorer",
        "sampler": "sampler",
        "objective": "objective",
        "index": "index back end",
        "reranker": "reranker",
        "clusterer": "clusterer",
        "exporter": "exporter",
    }
)


@dataclass(frozen=True, slots=True)
class Provider:
    """A module that registers plugins, and the distribution that brought it."""

    distribution: str
    version: str
    module: str
    builtin: bool
    hooks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} ({self.module})"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A factory under a name, with all that is said of it without calling it."""

    kind: Kind
    name: str
    summary: str
    factory: Factory
    settings: type[PluginSettings]
    extra: str
    provider: Provider
    sniff: Sniff | None = None

    @property
    def short_name(self) -> str:
        """The name without its vendor."""
        return self.name.partition("/")[2]

    @property
    def title(self) -> str:
        """Kind and name, as messages write them."""
        return f"{WORD_OF_KIND[self.kind]} {self.name!r}"
