"""Registers the KB adapters that come with kglink."""

from __future__ import annotations

from kglink.hookspecs import RegisterKB, hookimpl
from kglink_kbs import documents, jsonl, tabular


@hookimpl
def register_kbs(register: RegisterKB) -> None:
    """Offer the adapters of this package."""
    register(
        "kglink/jsonl",
        jsonl.JsonlAdapter,
        settings=jsonl.JsonlSettings,
        summary="Entities as JSON: one object per line, or one array of objects",
        sniff=jsonl.sniff,
    )
    register(
        "kglink/csv",
        tabular.TabularAdapter,
        settings=tabular.CsvSettings,
        summary="Entities as a table with a header; delimiter and quoting are guessed",
        sniff=tabular.sniff_csv,
    )
    register(
        "kglink/tsv",
        tabular.TabularAdapter,
        settings=tabular.TsvSettings,
        summary="Entities as a table with a header, columns separated by tabs",
        sniff=tabular.sniff_tsv,
    )
    register(
        "kglink/documents",
        documents.DocumentsAdapter,
        settings=documents.DocumentsSettings,
        summary="Annotated texts as JSON lines: spans, single mentions, or BLINK's contexts",
        sniff=documents.sniff,
    )
