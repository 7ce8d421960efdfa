"""Entities as JSON: one object per line, or one array of objects."""

from __future__ import annotations

from collections.abc import Iterator

from kglink.records import Record
from kglink.sources import Problems, Source, SourceHead
from kglink_kbs.json_reader import (
    JsonReader,
    JsonSettings,
    document_share,
    entity_share,
    head_objects,
    known_share,
)


class JsonlSettings(JsonSettings):
    """Settings of ``kglink/jsonl``."""


class JsonlAdapter:
    """Reads entities as JSON; annotated documents among them are read too."""

    def __init__(self, settings: JsonlSettings) -> None:
        self._reader = JsonReader(settings, bare_text="entity")

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the records of ``source`` in their order."""
        return self._reader.read(source, problems)


def sniff(head: SourceHead) -> float:
    """Sure of objects with an id and a title, doubtful of others, silent on the rest."""
    objects = head_objects(head)
    if not objects:
        return 0.0
    if document_share(objects) > 0.5:
        return 0.3
    if entity_share(objects) > 0.5:
        return 0.9
    return 0.2 if known_share(objects) > 0.5 else 0.05
