"""What kglink's own plugins register; nothing heavy is loaded before a factory is called."""

from __future__ import annotations

from kglink.hookspecs import Register, hookimpl
from kglink.protocols import Evidence, IndexBackend, PluginSettings
from kglink_plugins.detectors.dictionary import DictionarySettings, dictionary_detector
from kglink_plugins.evidence.settings import FuzzySettings, NeighbourSettings
from kglink_plugins.exporters.html import HtmlExporter, HtmlSettings
from kglink_plugins.exporters.json_records import JsonExporter, JsonlExporter, JsonSettings
from kglink_plugins.exporters.table import TableExporter, TableSettings
from kglink_plugins.indexes.settings import FactorySettings, FlatSettings


@hookimpl
def register_detectors(register: Register) -> None:
    """Register the mention detectors."""
    register(
        "kglink/dictionary",
        dictionary_detector,
        settings=DictionarySettings,
        summary="finds every alias of the linked KBs, whatever its case, accents and punctuation",
    )


@hookimpl
def register_evidence(register: Register) -> None:
    """Register the evidence of overlaps."""
    register("kglink/names", _name_evidence, summary="names in common, and who else bears them")
    register(
        "kglink/fuzzy",
        _fuzzy_evidence,
        settings=FuzzySettings,
        summary="names alike in words, letters and words that the KBs use for each other",
    )
    register(
        "kglink/neighbours",
        _neighbour_evidence,
        settings=NeighbourSettings,
        summary="names and texts near each other in the joint space, hubs held back",
    )
    register(
        "kglink/description",
        _description_evidence,
        summary="descriptions that mean the same to the encoder",
    )
    register("kglink/type", _type_evidence, summary="types that mean the same to the encoder")
    register(
        "kglink/parents", _parent_evidence, summary="parents and children that match (second pass)"
    )
    register(
        "kglink/rivals",
        _rival_evidence,
        summary="how far a pair leads other pairs of its entities (second pass)",
    )
    register(
        "kglink/through",
        _through_evidence,
        summary="both are one entity of a third KB, or of different ones (second pass)",
    )
    register(
        "kglink/xrefs",
        _xref_evidence,
        summary="codes that both entities name: what curators know; not in use by default",
    )


@hookimpl
def register_exporters(register: Register) -> None:
    """Register the output formats."""
    register(
        "kglink/table",
        TableExporter,
        settings=TableSettings,
        summary="for people: the text with its mentions marked, then a line per mention",
    )
    register(
        "kglink/jsonl",
        JsonlExporter,
        settings=JsonSettings,
        summary="one JSON object per line and document, written as it comes",
    )
    register(
        "kglink/json",
        JsonExporter,
        settings=JsonSettings,
        summary="one JSON list of all documents",
    )
    register(
        "kglink/html",
        HtmlExporter,
        settings=HtmlSettings,
        summary="one web page that needs nothing else: coloured by KB, candidates on hover",
    )


@hookimpl
def register_index_backends(register: Register) -> None:
    """Register the vector indexes."""
    register(
        "kglink/flat",
        _flat_backend,
        settings=FlatSettings,
        summary="exact search over all vectors, memory-mapped",
    )
    register(
        "kglink/faiss",
        _factory_backend,
        settings=FactorySettings,
        summary="any index of a faiss factory string: smaller or faster, approximate",
    )


def _name_evidence(settings: PluginSettings) -> Evidence:
    from kglink_plugins.evidence.names import NameEvidence

    return NameEvidence(settings)


def _description_evidence(settings: PluginSettings) -> Evidence:
    from kglink_plugins.evidence.description import DescriptionEvidence

    return DescriptionEvidence(settings)


def _fuzzy_evidence(settings: FuzzySettings) -> Evidence:
    from kglink_plugins.evidence.fuzzy import FuzzyEvidence

    return FuzzyEvidence(settings)


def _neighbour_evidence(settings: NeighbourSettings) -> Evidence:
    from kglink_plugins.evidence.neighbours import NeighbourEvidence

    return NeighbourEvidence(settings)


def _type_evidence(settings: PluginSettings) -> Evidence:
    from kglink_plugins.evidence.type import TypeEvidence

    return TypeEvidence(settings)


def _parent_evidence(settings: PluginSettings) -> Evidence:
    from kglink_plugins.evidence.parents import ParentEvidence

    return ParentEvidence(settings)


def _rival_evidence(settings: PluginSettings) -> Evidence:
    from kglink_plugins.evidence.rivals import RivalEvidence

    return RivalEvidence(settings)


def _through_evidence(settings: PluginSettings) -> Evidence:
    from kglink_plugins.evidence.through import ThroughEvidence

    return ThroughEvidence(settings)


def _xref_evidence(settings: PluginSettings) -> Evidence:
    from kglink_plugins.evidence.xrefs import XrefEvidence

    return XrefEvidence(settings)


def _flat_backend(settings: FlatSettings) -> IndexBackend:
    from kglink_plugins.indexes.flat import FlatBackend

    return FlatBackend(settings)


def _factory_backend(settings: FactorySettings) -> IndexBackend:
    from kglink_plugins.indexes.factory import FactoryBackend

    return FactoryBackend(settings)
