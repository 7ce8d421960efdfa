"""What all readers of texts share: one document of a source, and where its parts stand in it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from pydantic import Field

from kglink.errors import RecordError
from kglink.plugins import PluginSettings
from kglink.records import Document, Record
from kglink.sources import Problems, Source

#: What no text holds, whichever codec or program wrote it.
_UNWANTED = re.compile("[\0\ud800-\udfff]")
#: Between two parts.
_BREAK = "\n\n"


class TextSettings(PluginSettings):
    """Settings of all formats that mark code blocks and tables as such."""

    code: bool = Field(False, description="Whether code blocks are read.")
    tables: bool = Field(False, description="Whether tables are read.")


class OneTextAdapter(ABC):
    """Reads a source as one document."""

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """The document; what is wrong with its text goes to ``problems``."""
        try:
            document = self.document(source)
        except RecordError as error:
            problems.report(error)
            return
        yield document

    @abstractmethod
    def document(self, source: Source) -> Document:
        """The document."""


def document_of_parts(
    source: Source, kind: str, parts: Iterable[tuple[str, str]], *, title: str = ""
) -> Document:
    """One document of named parts; ``meta`` says its format, and where each part stands.

    Parts without a word are left out, and so are NULs and halves of surrogate pairs.
    """
    pieces: list[str] = []
    places: list[dict[str, object]] = []
    length = 0
    for name, raw in parts:
        part = _UNWANTED.sub("", raw).strip()
        if part:
            begin = length + len(_BREAK) * bool(pieces)
            length = begin + len(part)
            places.append({"part": name, "start": begin, "end": length})
            pieces.append(part)
    title = " ".join(_UNWANTED.sub("", title).split())
    meta: dict[str, object] = {"format": kind, **({"title": title} if title else {})}
    return Document(source.name, _BREAK.join(pieces), title=title, meta={**meta, "parts": places})
