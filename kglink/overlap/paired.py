"""Two KBs of a store as evidence sees them: `kglink.plugins.PairedKBs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from kglink.overlap.names import NameJoin
from kglink.plugins import EntityVectors, Side
from kglink.records import Entity, EntityId, OnProgress, Progress

if TYPE_CHECKING:
    from kglink.overlap.scratch import ScratchPairs
    from kglink.plugins import FloatArray
    from kglink.store import Store

RowKind = Literal["text", "alias"]
#: The vectors of a KB's rows of one kind, None where the joint space has none.
VectorsOf = Callable[[str, RowKind], EntityVectors | None]


class StoreKBs:
    """Reads from the store, the kept text vectors and the joint space."""

    def __init__(
        self,
        store: Store,
        names: NameJoin,
        left: str,
        right: str,
        *,
        encode: Callable[[Sequence[str]], FloatArray],
        vectors_of: VectorsOf,
        scratch: ScratchPairs,
        device: str = "auto",
        progress: OnProgress = lambda _: None,
    ) -> None:
        self.left, self.right = left, right
        self.device = device
        self._store = store
        self._names = names
        self._encode = encode
        self._vectors_of = vectors_of
        self._scratch = scratch
        self._progress = progress

    def entities(self, side: Side) -> Iterator[Entity]:
        """All entities of one side in the order of their keys."""
        return self._store.entities(self._kb(side))

    def get(self, side: Side, keys: Iterable[str]) -> dict[str, Entity]:
        """Some entities of one side."""
        kb = self._kb(side)
        found = self._store.get_entities(EntityId(kb, key) for key in keys)
        return {entity_id.key: entity for entity_id, entity in found.items()}

    def shared_names(self) -> Iterator[tuple[str, str, str]]:
        """Left key, right key and the folded name that both bear."""
        for pair in self._names:
            for name in pair.names:
                yield pair.left, pair.right, name

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """The unit vector of each text."""
        return self._encode(texts)

    def vectors(self, side: Side, rows: RowKind) -> EntityVectors | None:
        """The vectors of one side in the joint space."""
        return self._vectors_of(self._kb(side), rows)

    def overlaps_through(self) -> Iterator[tuple[str, str, str, float]]:
        """Left key, right key, a third KB, and how probably both are the same entity of it."""
        for info in self._store.kbs():
            if info.name not in (self.left, self.right):
                yield from self._through(info.name)

    def _through(self, third: str) -> Iterator[tuple[str, str, str, float]]:
        by_third: dict[str, list[tuple[str, float]]] = {}
        for overlap in self._store.overlaps(third, self.right):
            probability = _believed(overlap.probability, overlap.verdict)
            by_third.setdefault(overlap.left.key, []).append((overlap.right.key, probability))
        if not by_third:
            return
        for overlap in self._store.overlaps(self.left, third):
            probability = _believed(overlap.probability, overlap.verdict)
            for key, other in by_third.get(overlap.right.key, ()):
                yield overlap.left.key, key, third, probability * other

    def probability(self, left: str, right: str) -> float | None:
        """What the first pass found a pair to be."""
        return self._scratch.probability(left, right)

    def partners(self, side: Side, key: str) -> dict[str, float]:
        """The other sides of all pairs of an entity."""
        return self._scratch.partners(side, key)

    def report(self, progress: Progress) -> None:
        """How far evidence has come in a long search."""
        self._progress(progress)

    def _kb(self, side: Side) -> str:
        return self.left if side == "left" else self.right


def _believed(probability: float, verdict: str | None) -> float:
    if verdict == "correct":
        return 1.0
    return 0.0 if verdict == "wrong" else probability
