"""Worlds as files in the project's own input formats."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from kglink.records import Document, Entity


def write_entities_jsonl(path: Path, entities: Iterable[Entity]) -> int:
    """Write one JSON object per entity; returns how many."""
    return _write(path, (_entity_record(entity) for entity in entities))


def write_documents_jsonl(path: Path, documents: Iterable[Document]) -> int:
    """Write one JSON object per document; returns how many."""
    return _write(path, (_document_record(document) for document in documents))


def _write(path: Path, records: Iterable[dict[str, object]]) -> int:
    count = 0
    encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for record in records:
            out.write(encode(record) + "\n")
            count += 1
    return count


def _entity_record(entity: Entity) -> dict[str, object]:
    return {
        "id": entity.key,
        "title": entity.title,
        "description": entity.description,
        "type": entity.type,
        "url": entity.url,
        "popularity": entity.popularity,
        "language": entity.language,
        "aliases": [
            {"surface": alias.surface, "kind": alias.kind, "count": alias.count}
            for alias in entity.aliases
        ],
        "xrefs": list(entity.xrefs),
    }


def _document_record(document: Document) -> dict[str, object]:
    return {
        "id": document.id,
        "text": document.text,
        "split": document.split,
        "entities": [
            {
                "start": mention.start,
                "end": mention.end,
                "text": mention.surface,
                "type": mention.type,
                "gold": None if mention.gold is None else [str(item) for item in mention.gold],
            }
            for mention in document.mentions
        ],
    }
