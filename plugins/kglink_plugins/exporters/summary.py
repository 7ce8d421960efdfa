"""What exporters share: counts, notes, and texts that are safe to show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO

from kglink.records import LinkedDocument
from kglink.text.printable import printable_json, printable_line

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


def counted(n: int, noun: str) -> str:
    """``n`` of ``noun``, in words (``1 mention``, ``2,000 mentions``)."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


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


def one_line(text: str) -> str:
    """``text`` for a table cell: every run of white space becomes one space."""
    return printable_line(" ".join(text.split()))


def encodable(text: str, out: TextIO) -> str:
    """``text`` with a question mark for whatever the encoding of ``out`` cannot hold."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def page_json(value: object) -> str:
    """``value`` as JSON that no HTML parser can take for a tag, a comment or an entity."""
    return re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", printable_json(value))
