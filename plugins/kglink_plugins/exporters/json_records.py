"""Linked documents as JSON: one line per document (jsonl) or one list of them all (json)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from pydantic import Field

from kglink.plugins import PluginSettings
from kglink.records import Candidate, EntityId, Link, LinkedDocument
from kglink_plugins.exporters.escape import json_text, number, plain
from kglink_plugins.exporters.summary import in_reading_order


class JsonSettings(PluginSettings):
    """What a JSON record holds."""

    explain: bool = Field(
        False, description="Give every candidate the parts of its score as `evidence`."
    )


class JsonlExporter:
    """Writes one JSON object per line and document, each as soon as it comes."""

    def __init__(self, settings: JsonSettings) -> None:
        self._explain = settings.explain

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write a line for each document and flush it."""
        for document in documents:
            out.write(json_text(document_record(document, explain=self._explain)) + "\n")
            out.flush()


class JsonExporter:
    """Writes one JSON list with an object per document, each as soon as it comes."""

    def __init__(self, settings: JsonSettings) -> None:
        self._explain = settings.explain

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write the list, a line and a flush for each document."""
        before = "["
        for document in documents:
            record = json_text(document_record(document, explain=self._explain))
            out.write(f"{before}\n{record}")
            out.flush()
            before = ","
        out.write("[]\n" if before == "[" else "\n]\n")
        out.flush()


def document_record(document: LinkedDocument, *, explain: bool) -> dict[str, object]:
    """The stable machine-readable shape of a linked document."""
    return {
        "id": document.id,
        "text": document.text,
        "entities": [
            link_record(link, explain=explain) for link in in_reading_order(document.links)
        ],
        "meta": plain(document.meta),
    }


def link_record(link: Link, *, explain: bool) -> dict[str, object]:
    """The stable machine-readable shape of a link; what a NIL lacks is null."""
    chosen = link.chosen
    return {
        "start": link.start,
        "end": link.end,
        "text": link.surface,
        "kb": chosen.id.kb if chosen else None,
        "key": chosen.id.key if chosen else None,
        "title": chosen.title if chosen else None,
        "url": (chosen.url or None) if chosen else None,
        "score": number(chosen.score) if chosen else None,
        "confidence": number(link.confidence),
        "nil": chosen is None,
        "candidates": [_candidate_record(item, explain=explain) for item in link.candidates],
        "also": [_id_record(entity) for entity in chosen.also] if chosen else [],
    }


def _candidate_record(candidate: Candidate, *, explain: bool) -> dict[str, object]:
    record: dict[str, object] = {
        **_id_record(candidate.id),
        "title": candidate.title,
        "score": number(candidate.score),
    }
    return record | {"evidence": plain(candidate.evidence)} if explain else record


def _id_record(entity: EntityId) -> dict[str, object]:
    return {"kb": entity.kb, "key": entity.key}
