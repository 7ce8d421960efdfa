"""Ordering candidates anew, and writing links: rerankers, clusterers and exporters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TextIO

from kglink.records import LinkedDocument, Ranking


class Reranker(Protocol):
    """Orders the candidates of mentions anew, each mention by itself.

    It is asked for one batch of mentions after another. The candidates come described: title,
    description, type, url, aliases, parents, counterparts in other KBs, and evidence by name.
    """

    def rank(self, rankings: Sequence[Ranking]) -> Sequence[Ranking]:
        """The same rankings in the same order, each with new scores, best first.

        A ranking has the same candidates as before; only their ``score`` and ``evidence`` may
        change. Each answer depends on its own ranking alone.
        """
        ...


class Clusterer(Protocol):
    """Orders candidates anew by what the other mentions of a run say.

    It is asked once, with all mentions of all texts of a run, after the reranker.
    """

    def rank(self, rankings: Sequence[Ranking]) -> Sequence[Ranking]:
        """The same rankings in the same order, each with new scores, best first.

        A ranking has the same candidates as before; only their ``score`` and ``evidence`` may
        change. The order in which the mentions come changes no answer.
        """
        ...


class Exporter(Protocol):
    """Writes linked documents in one format."""

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write all of ``documents``, each as soon as it comes where the format allows it.

        The same documents give the same text. ``out`` is left open.
        """
        ...
