"""Nearest vectors: index back ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from kglink.protocols.arrays import FloatArray, IntArray


class RowRange(NamedTuple):
    """A half-open range of index rows."""

    start: int
    stop: int


class VectorIndex(Protocol):
    """Nearest rows by inner product."""

    size: int
    exact: bool

    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Scores and row numbers, best first, (n, k) each; -inf and -1 where fewer exist.

        With ``ranges`` only those rows take part. Equal scores: the smaller row first.
        """
        ...

    def save(self, path: Path) -> None:
        """Write one file, from which ``load`` makes an index that answers the same."""
        ...


class IndexBackend(Protocol):
    """Builds and loads one kind of index."""

    def build(self, batches: Iterable[FloatArray], dim: int) -> VectorIndex:
        """Index the rows of all batches, in their order."""
        ...

    def load(self, path: Path) -> VectorIndex:
        """Open a file that ``save`` wrote, memory-mapped where the kind allows it."""
        ...
