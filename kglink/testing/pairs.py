"""Two KBs in memory, as evidence of overlaps sees them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from kglink.plugins import EntityVectors, Side
from kglink.records import Entity, Progress
from kglink.text.entity_text import entity_text
from kglink.text.fold import fold

if TYPE_CHECKING:
    from kglink.plugins import FloatArray, IntArray

DIM = 16


class ListedKBs:
    """Two lists of entities as `kglink.plugins.PairedKBs`.

    Vectors are made of the words of a text: texts without a common word are at right angles or
    nearly so, equal ones have the cosine 1. Without ``space`` no vectors of rows are there.
    ``first_pass`` is what the first pass found, ``through`` what a third KB says. ``reports``
    holds how far evidence said that it has come.
    """

    def __init__(
        self,
        left: Iterable[Entity],
        right: Iterable[Entity],
        *,
        names: tuple[str, str] = ("left_kb", "right_kb"),
        space: bool = True,
        first_pass: Mapping[tuple[str, str], float] | None = None,
        through: Iterable[tuple[str, str, str, float]] = (),
    ) -> None:
        self.left, self.right = names
        self.device = "cpu"
        self.reports: list[Progress] = []
        self._sides: dict[Side, dict[str, Entity]] = {
            "left": {entity.key: entity for entity in sorted(left, key=lambda one: one.key)},
            "right": {entity.key: entity for entity in sorted(right, key=lambda one: one.key)},
        }
        self._space = space
        self._first_pass = dict(first_pass or {})
        self._through = tuple(through)

    def entities(self, side: Side) -> Iterator[Entity]:
        """All entities of one side in the order of their keys."""
        return iter(self._sides[side].values())

    def get(self, side: Side, keys: Iterable[str]) -> dict[str, Entity]:
        """Some entities of one side."""
        known = self._sides[side]
        return {key: known[key] for key in keys if key in known}

    def shared_names(self) -> Iterator[tuple[str, str, str]]:
        """Left key, right key and the folded name that both bear."""
        for one in self.entities("left"):
            for other in self.entities("right"):
                for name in sorted(_folded_names(one) & _folded_names(other)):
                    yield one.key, other.key, name

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """The unit vector of each text."""
        vectors = [_word_vector(text) for text in texts]
        return np.stack(vectors) if vectors else np.empty((0, DIM), np.float32)

    def vectors(self, side: Side, rows: Literal["text", "alias"]) -> EntityVectors | None:
        """The vectors of one side's texts or names."""
        if not self._space:
            return None
        owned = [
            (number, text)
            for number, entity in enumerate(self.entities(side))
            for text in ([entity_text(entity)] if rows == "text" else _surfaces(entity))
        ]
        return ListedVectors(
            list(self._sides[side]),
            np.array([number for number, _ in owned], np.int64),
            self.encode([text for _, text in owned]),
        )

    def overlaps_through(self) -> Iterator[tuple[str, str, str, float]]:
        """What a third KB says."""
        return iter(self._through)

    def probability(self, left: str, right: str) -> float | None:
        """What the first pass found a pair to be."""
        return self._first_pass.get((left, right))

    def partners(self, side: Side, key: str) -> dict[str, float]:
        """The other sides of all pairs of an entity."""
        mine, other = (0, 1) if side == "left" else (1, 0)
        return {pair[other]: p for pair, p in self._first_pass.items() if pair[mine] == key}

    def report(self, progress: Progress) -> None:
        """Note how far a search has come."""
        self.reports.append(progress)


class ListedVectors:
    """A matrix as `kglink.plugins.EntityVectors`."""

    def __init__(self, keys: Sequence[str], owners: IntArray, matrix: FloatArray) -> None:
        self.keys = keys
        self.owners = owners
        self._matrix = matrix
        self._numbers = {key: number for number, key in enumerate(keys)}

    def rows(self, numbers: IntArray | slice) -> FloatArray:
        """Some rows."""
        return self._matrix[numbers]

    def find(self, keys: Sequence[str]) -> IntArray:
        """The number of each entity, -1 for a key that is not there."""
        return np.array([self._numbers.get(key, -1) for key in keys], np.int64)


def _surfaces(entity: Entity) -> list[str]:
    return list(dict.fromkeys([entity.title, *(alias.surface for alias in entity.aliases)]))


def _folded_names(entity: Entity) -> set[str]:
    return {fold(surface) for surface in _surfaces(entity)} - {""}


def _word_vector(text: str) -> FloatArray:
    total = np.zeros(DIM, np.float32)
    for word in fold(text).split() or [text]:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=DIM).digest()
        total += np.frombuffer(digest, np.uint8).astype(np.float32) - 127.5
    unit: FloatArray = total / np.linalg.norm(total)
    return unit
