"""What is said about linked documents in every format: counts, notes, and marks in a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kglink.records import Link, LinkedDocument
from kglink.shown import overlapping

#: The entries of a document's ``meta`` that a reader must see without asking for them.
NOTE_KEYS = ("truncated", "cut", "warnings", "notes")


@dataclass
class Tally:
    """Counts of documents and mentions."""

    documents: int = 0
    mentions: int = 0
    linked: int = 0
    per_kb: Counter[str] = field(default_factory=Counter)

    def add(self, document: LinkedDocument) -> None:
        """Count one document."""
        chosen = [link.chosen.id.kb for link in document.links if link.chosen is not None]
        self.documents += 1
        self.mentions += len(document.links)
        self.linked += len(chosen)
        self.per_kb.update(chosen)

    @property
    def nil(self) -> int:
        """The mentions that no entity was found for."""
        return self.mentions - self.linked

    def __str__(self) -> str:
        return f"{counted(self.mentions, 'mention')}, {self.linked:,} linked, {self.nil:,} NIL"


class Mark(NamedTuple):
    """A link to mark in the text, and those that overlap it and get a place beside it."""

    link: Link
    inner: tuple[Link, ...]


def counted(n: int, noun: str) -> str:
    """``n`` of ``noun``, in words (``1 mention``, ``2,000 mentions``)."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def marks(links: Iterable[Link]) -> list[Mark]:
    """Marks that do not overlap; a link that begins inside a mark is one of its ``inner``."""
    return [Mark(first, tuple(rest)) for first, *rest in overlapping(links)]


def notes(meta: Mapping[str, object]) -> list[str]:
    """What was cut or went wrong, one line each."""
    lines: list[str] = []
    for key in NOTE_KEYS:
        value = meta.get(key)
        if isinstance(value, list | tuple):
            lines += [f"{key}: {item}" for item in value]
        elif value:
            lines.append(f"{key}: {value}")
    return lines
