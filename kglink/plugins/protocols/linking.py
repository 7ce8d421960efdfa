"""Ordering candidates anew, and writing links: rerankers and exporters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TextIO

from kglink.records import Candidate, LinkedDocument, Span


class RerankQuery(NamedTuple):
    """One mention, its text, and its candidates as retrieved."""

    text: str
    span: Span
    candidates: tuple[Candidate, ...]


class Reranker(Protocol):
    """Orders candidates anew."""

    def rerank(self, queries: Sequence[RerankQuery]) -> list[tuple[Candidate, ...]]:
        """For each query the same candidates with new scores, best first.

        Only ``score`` and ``evidence`` may change. A query's answer does not depend on the
        others; a query without candidates has an empty answer.
        """
        ...


class Exporter(Protocol):
    """Writes linked documents in one format."""

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write all of ``documents``, each as soon as it comes where the format allows it.

        The same documents give the same text. ``out`` is left open.
        """
        ...
