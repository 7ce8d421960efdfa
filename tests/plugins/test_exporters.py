"""All exporters keep their contract, and all formats are registered."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TextIO

import pytest

import kglink_kbs.plugin
from kglink.errors import PluginError
from kglink.plugins import Exporter, Factory, PluginSettings, Sniff
from kglink.records import LinkedDocument
from kglink.testing import ExporterContract
from kglink.testing.contracts.exporter import ExportedSpan
from kglink.workspace.outputs import export_links
from kglink_kbs.bioc import BiocExporter, BiocWriterSettings
from kglink_kbs.labelstudio import LabelStudioExporter
from kglink_kbs.nif import NifExporter
from kglink_kbs.pubtator import PubtatorExporter
from kglink_plugins.exporters.html import HtmlExporter, HtmlSettings
from kglink_plugins.exporters.json_records import JsonExporter, JsonlExporter, JsonSettings
from kglink_plugins.exporters.standoff import (
    BratExporter,
    BratTextExporter,
    CsvExporter,
    CsvSettings,
    StandoffSettings,
)
from kglink_plugins.exporters.table import TableExporter, TableSettings
from kglink_plugins.plugin import register_exporters


class TestJsonlContract(ExporterContract):
    output = "jsonl"

    def make(self) -> Exporter:
        return JsonlExporter(JsonSettings(explain=True))


class TestJsonContract(ExporterContract):
    output = "json"

    def make(self) -> Exporter:
        return JsonExporter(JsonSettings())


class TestNifContract(ExporterContract):
    def make(self) -> Exporter:
        return NifExporter(PluginSettings())


class TestBiocContract(ExporterContract):
    def make(self) -> Exporter:
        return BiocExporter(BiocWriterSettings())


class TestBiocJsonContract(ExporterContract):
    def make(self) -> Exporter:
        return BiocExporter(BiocWriterSettings(syntax="json"))


class TestLabelStudioContract(ExporterContract):
    output = "json"

    def make(self) -> Exporter:
        return LabelStudioExporter(PluginSettings())

    def exported_spans(self, output: str) -> Iterator[ExportedSpan]:
        for task in json.loads(output):
            for one in task["predictions"][0]["result"]:
                value = one["value"]
                if one["type"] == "labels":
                    place = (value["start"], value["end"], value["text"])
                    yield ExportedSpan(task["data"]["text"], *place)


class TestTableContract(ExporterContract):
    def make(self) -> Exporter:
        return TableExporter(TableSettings(colour="always", explain=True))


class TestHtmlContract(ExporterContract):
    streams = False  # the legend with its counts stands before the documents

    def make(self) -> Exporter:
        return HtmlExporter(HtmlSettings(explain=True))


class TestCsvContract(ExporterContract):
    def make(self) -> Exporter:
        return CsvExporter(CsvSettings())


class TestPubtatorContract(ExporterContract):
    def make(self) -> Exporter:
        return PubtatorExporter(PluginSettings())


class TestBratContract(ExporterContract):
    def make(self) -> Exporter:
        return BratExporter(StandoffSettings())


class TestBratTextContract(ExporterContract):
    def make(self) -> Exporter:
        return BratTextExporter()


def test_all_formats_are_registered() -> None:
    made: dict[str, object] = {}

    def register(
        name: str,
        factory: Factory,
        *,
        settings: type[PluginSettings] | None = None,
        summary: str,
        extra: str = "",
        sniff: Sniff | None = None,
        texts: bool = False,
    ) -> None:
        assert not sniff
        assert not texts
        assert summary
        assert not extra
        made[name] = factory((settings or PluginSettings)())

    register_exporters(register)
    kglink_kbs.plugin.register_exporters(register)
    assert {name: type(exporter) for name, exporter in made.items()} == {
        "kglink/table": TableExporter,
        "kglink/jsonl": JsonlExporter,
        "kglink/json": JsonExporter,
        "kglink/html": HtmlExporter,
        "kglink/csv": CsvExporter,
        "kglink/pubtator": PubtatorExporter,
        "kglink/brat": BratExporter,
        "kglink/brat-text": BratTextExporter,
        "kglink/nif": NifExporter,
        "kglink/bioc": BiocExporter,
        "kglink/labelstudio": LabelStudioExporter,
    }


def test_who_fails_is_named_the_exporter_or_the_linking() -> None:
    class Failing:
        def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
            out.write(str(len(list(documents)) / 0))

    def linking() -> Iterator[LinkedDocument]:
        raise ValueError("no exporter's affair")
        yield

    class Careless:
        def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
            with suppress(ValueError):
                next(iter(documents))

    class Closing:
        def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
            with out:
                out.writelines(document.id for document in documents)

    failed = r"exporter test_exporters\.Failing failed with ZeroDivisionError"
    with pytest.raises(PluginError, match=failed):
        export_links(Failing(), [], io.StringIO())
    for exporter in (Failing(), Careless()):
        with pytest.raises(ValueError, match="no exporter's affair"):
            export_links(exporter, linking(), io.StringIO())
    two = [LinkedDocument(id_, "", ()) for id_ in "ab"]
    with pytest.raises(PluginError, match="Careless left documents unwritten"):
        export_links(Careless(), two, io.StringIO())
    with pytest.raises(PluginError, match="Closing closed its output"):
        export_links(Closing(), two, io.StringIO())
