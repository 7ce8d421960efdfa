"""The table of plugin kinds: hooks, listings, contracts and templates are read from it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Kind = Literal[
    "kb",
    "detector",
    "evidence",
    "overlap-evidence",
    "scorer",
    "sampler",
    "objective",
    "index",
    "reranker",
    "clusterer",
    "exporter",
]


class PluginKind(NamedTuple):
    """All that is known of a kind of plugin; its template lies in ``plugins/template/NAME``."""

    name: Kind
    hook: str
    word: str
    """What messages call one of them."""
    protocol: str
    """What a factory makes: a name in `kglink.plugins`."""
    factory: str = "factory(settings)"
    """How a factory is called."""

    @property
    def contract(self) -> str:
        """What checks it: a name in `kglink.testing`."""
        return f"{self.protocol}Contract"

    @property
    def plural(self) -> str:
        """What messages call several."""
        return self.word if self.word.endswith("evidence") else f"{self.word}s"


_TABLE = (
    PluginKind("kb", "register_kbs", "KB adapter", "KBAdapter"),
    PluginKind(
        "detector", "register_detectors", "detector", "Detector", "factory(settings, names)"
    ),
    PluginKind("evidence", "register_evidence", "evidence", "CandidateEvidence"),
    PluginKind("overlap-evidence", "register_overlap_evidence", "overlap evidence", "PairEvidence"),
    PluginKind("scorer", "register_scorers", "scorer", "Scorer"),
    PluginKind("sampler", "register_samplers", "sampler", "Sampler"),
    PluginKind("objective", "register_objectives", "objective", "Objective"),
    PluginKind("index", "register_index_backends", "index back end", "IndexBackend"),
    PluginKind("reranker", "register_rerankers", "reranker", "Reranker"),
    PluginKind("clusterer", "register_clusterers", "clusterer", "Clusterer"),
    PluginKind("exporter", "register_exporters", "exporter", "Exporter"),
)

#: By name, in the order in which kinds are listed.
KINDS: Mapping[Kind, PluginKind] = MappingProxyType({kind.name: kind for kind in _TABLE})
