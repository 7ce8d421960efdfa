"""A linker whose rankings are written down, and documents of one mention each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kglink.linking.linker import Linker
from kglink.linking.retrieve import Scored
from kglink.plugins import Reranker
from kglink.records import Document, EntityId, Mention, Span

KBS = ("a", "b", "c")
#: The candidates of each surface in their order over all KBs.
RANKINGS: Mapping[str, Sequence[str]] = {
    "one": ("b:1", "c:1", "a:1"),
    "two": ("c:9", "a:2", "b:2"),
    "six": ("a:9", "b:9", "c:6"),
}
SAME = {"a:1": ("b:1",), "a:2": ("b:2", "d:2"), "c:6": ("a:9", "d:6"), "a:7": ("b:1",)}


class HandMade(Linker):
    """Ranks as it is told."""

    def __init__(
        self,
        rankings: Mapping[str, Sequence[str]] = RANKINGS,
        reranker: Reranker | None = None,
        kbs: Sequence[str] = KBS,
    ) -> None:
        self._rankings = rankings
        self._reranker = reranker
        self._named = kbs

    def candidates(
        self, places: Sequence[tuple[str, Span]], *, limit: int
    ) -> list[dict[str, list[Scored]]]:
        """The candidates of each KB."""
        return [self._ranked(text[span.start : span.end], limit) for text, span in places]

    def _ranked(self, surface: str, limit: int) -> dict[str, list[Scored]]:
        by_kb: dict[str, list[Scored]] = {kb: [] for kb in self._named}
        for place, one in enumerate(map(EntityId.parse, self._rankings[surface])):
            by_kb[one.kb].append(Scored(one, surface, 1 - place / 100, 0.0, {}))
        return {kb: found[:limit] for kb, found in by_kb.items()}


def same(ids: Iterable[EntityId]) -> dict[EntityId, tuple[EntityId, ...]]:
    """The counterparts in `SAME`."""
    wanted = {str(name): name for name in ids}
    return {
        name: tuple(map(EntityId.parse, SAME[text]))
        for text, name in wanted.items()
        if text in SAME
    }


def document(surface: str, *gold: str, nil: bool = False) -> Document:
    """One mention, which is the whole text."""
    names = tuple(map(EntityId.parse, gold)) if gold or nil else None
    return Document(surface, surface, (Mention(0, len(surface), surface, names),))


DOCUMENTS = [
    document("one", "a:1"),
    document("two", "a:2", "c:2"),
    document("six", "c:6"),
    document("one", "d:1"),  # of a KB that is not ranked: not counted
    document("two", nil=True),
    document("two"),
]
