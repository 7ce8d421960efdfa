"""Annotated texts as JSON lines, in three forms that are told apart record by record."""

from __future__ import annotations

from collections.abc import Iterator

from kglink.records import Record
from kglink.sources import Problems, Source, SourceHead
from kglink_kbs.json_reader import (
    JsonReader,
    JsonSettings,
    bare_text_share,
    document_share,
    head_objects,
)


class DocumentsSettings(JsonSettings):
    """Settings of ``kglink/documents``."""


class DocumentsAdapter:
    """Reads documents with their mentions; entities among them are read too."""

    def __init__(self, settings: DocumentsSettings) -> None:
        self._reader = JsonReader(settings, bare_text="document")

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the records of ``source`` in their order."""
        return self._reader.read(source, problems)


def sniff(head: SourceHead) -> float:
    """Sure of texts with spans, fairly sure of texts alone."""
    objects = head_objects(head)
    if not objects:
        return 0.0
    if document_share(objects) > 0.5:
        return 0.9
    return 0.5 if bare_text_share(objects) > 0.5 else 0.0
