"""Synthetic worlds: KBs of any size that share entities, names and documents in known numbers."""

from kglink.testing.worlds.files import (
    MediaWikiWriter,
    WrittenWiki,
    write_documents_jsonl,
    write_entities_jsonl,
    write_mediawiki_xml,
)
from kglink.testing.worlds.settings import WorldSettings
from kglink.testing.worlds.world import Counts, DocumentSettings, World

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
