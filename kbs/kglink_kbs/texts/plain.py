"""Plain text, and what all readers of texts share: one document of a source, and its parts."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from kglink.errors import RecordError
from kglink.plugins import PluginSettings
from kglink.records import Document, Mention, Record
from kglink.sources import Problems, Source
from kglink.text.markup import parse_marked

#: What no text holds, whichever codec or program wrote it.
_UNWANTED = re.compile("[\0\ud800-\udfff]")
#: Between two parts.
_BREAK = "\n\n"


class TextSettings(PluginSettings):
    """Settings of all formats that mark code blocks and tables as such."""

    code: bool = False
    """Whether code blocks are read."""
    tables: bool = False
    """Whether tables are read."""


class PlainSettings(PluginSettings):
    """Settings of ``kglink/text``."""

    marked: bool = False
    """Whether mentions are marked: [[like this]]."""


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


class PlainAdapter(OneTextAdapter):
    """Reads a whole source as one text, its mentions marked by hand or not."""

    def __init__(self, settings: PlainSettings) -> None:
        self._marked = settings.marked

    def document(self, source: Source) -> Document:
        """The text, with the mentions that are marked in it."""
        text = source.text()
        text, spans = parse_marked(text) if self._marked else (text, [])
        mentions = (Mention(one.start, one.end, text[one.start : one.end]) for one in spans)
        return Document(source.name, text, tuple(mentions))
