"""The entity store: KBs, entities, documents and overlaps in SQLite or PostgreSQL."""

from kglink.store.ingest import check_kb_name, suggested_name
from kglink.store.store import Store
from kglink.store.values import (
    IngestJob,
    IngestSummary,
    KBInfo,
    StoredAlias,
    StoredEntity,
    Tally,
)

__all__ = [
    "IngestJob",
    "IngestSummary",
    "KBInfo",
    "Store",
    "StoredAlias",
    "StoredEntity",
    "Tally",
    "check_kb_name",
    "suggested_name",
]
