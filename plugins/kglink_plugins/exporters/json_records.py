"""Linked documents as JSON: one line per document (jsonl) or one list of them all (json)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from kglink.plugins import PluginSettings
from kglink.records import LinkedDocument
from kglink.text.printable import printable_json, write_list


class JsonSettings(PluginSettings):
    """What a JSON record holds."""

    explain: bool = False
    """Give every candidate the parts of its score as `evidence`."""
    rejected: bool = False
    """Give what was not linked, and why, as `rejected` (`link.rejected`)."""

    def record(self, document: LinkedDocument) -> str:
        """A document in one line."""
        return printable_json(document.as_json(explain=self.explain, rejected=self.rejected))


class JsonlExporter:
    """Writes one JSON object per line and document, each as soon as it comes."""

    def __init__(self, settings: JsonSettings) -> None:
        self._settings = settings

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write a line for each document and flush it."""
        for document in documents:
            out.write(self._settings.record(document) + "\n")
            out.flush()


class JsonExporter:
    """Writes one JSON list with an object per document, each as soon as it comes."""

    def __init__(self, settings: JsonSettings) -> None:
        self._settings = settings

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write the list, a line and a flush for each document."""
        write_list(map(self._settings.record, documents), out)
