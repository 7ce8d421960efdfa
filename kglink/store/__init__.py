"""The entity store: KBs, entities, documents and overlaps in SQLite or PostgreSQL."""

from kglink.store.ingest import check_kb_name, suggested_name
from kglink.store.store import Store
from kglink.store.values import IngestJob, IngestSummary, KBInfo, Resolve, StoredAlias, Tally

__all__ = [
    "IngestJob",
    "IngestSummary",
    "KBInfo",
    "Resolve",
    "Store",
    "StoredAlias",
    "Tally",
    "check_kb_name",
    "suggested_name",
]
