"""Finding mentions: detectors, and the names that they look for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kglink.records import Span


@dataclass(frozen=True, slots=True)
class NameRow:
    """One alias of one entity as the name index holds it."""

    surface: str
    folded: str
    kb: str
    count: int


class Names(Protocol):
    """All aliases of the KBs that a linker was opened with."""

    fingerprint: str
    """Changes whenever any alias does; names a cached automaton."""
    cache_dir: Path | None
    """Where a detector may keep compiled files (None: nowhere)."""

    def __iter__(self) -> Iterator[NameRow]: ...

    def __len__(self) -> int: ...


class Detector(Protocol):
    """Finds the mentions of a text."""

    def detect(self, text: str) -> list[Span]:
        """Spans in reading order that do not overlap, with ``0 <= start < end <= len(text)``.

        The answer depends on the text and the names alone, not on what was asked before.
        """
        ...
