"""What kglink's own plugins register; nothing heavy is loaded before a factory is called."""

from __future__ import annotations

from kglink.hookspecs import Register, hookimpl
from kglink.protocols import Evidence, IndexBackend, PluginSettings
from kglink_plugins.detectors.dictionary import DictionarySettings, dictionary_detector
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
    register("kglink/names", _name_evidence, summary="a name in common, whatever its spelling")
    register(
        "kglink/description",
        _description_evidence,
        summary="descriptions that mean the same to the encoder",
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
    from kglink.overlap.evidence import NameEvidence

    return NameEvidence(settings)


def _description_evidence(settings: PluginSettings) -> Evidence:
    from kglink.overlap.evidence import DescriptionEvidence

    return DescriptionEvidence(settings)


def _flat_backend(settings: FlatSettings) -> IndexBackend:
    from kglink_plugins.indexes.flat import FlatBackend

    return FlatBackend(settings)


def _factory_backend(settings: FactorySettings) -> IndexBackend:
    from kglink_plugins.indexes.factory import FactoryBackend

    return FactoryBackend(settings)
