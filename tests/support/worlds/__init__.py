"""Synthetic worlds: KBs of any size that share entities, names and documents in known numbers."""

from worlds.files import (
    MediaWikiWriter,
    WrittenWiki,
    write_documents_jsonl,
    write_entities_jsonl,
    write_mediawiki_xml,
)
from worlds.settings import WorldSettings
from worlds.world import Counts, DocumentSettings, World

__all__ = [
    "Counts",
    "DocumentSettings",
    "MediaWikiWriter",
    "World",
    "WorldSettings",
    "WrittenWiki",
    "write_documents_jsonl",
    "write_entities_jsonl",
    "write_mediawiki_xml",
]
