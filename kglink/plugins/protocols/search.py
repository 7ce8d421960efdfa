"""Nearest vectors: index back ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from kglink.plugins.protocols.base import PluginSettings

if TYPE_CHECKING:
    from kglink.plugins.protocols.arrays import FloatArray, IntArray


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


class IndexPreset(NamedTuple):
    """Settings of an index back end that go together."""

    settings: Mapping[str, str | int | float | bool]
    summary: str


class IndexSettings(PluginSettings):
    """The base of the settings of a back end that says more of itself to ``kglink index``."""

    #: Settings that an index file can be opened with anew: changing them takes no new build.
    search_only: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def presets(cls) -> Mapping[str, IndexPreset]:
        """By name, what ``kglink index --preset NAME`` can choose."""
        return {}
