"""Plain text, and what all readers of texts share: one document of a source, and its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from kglink.errors import RecordError
from kglink.plugins import PluginSettings
from kglink.records import Document, Mention, Record
from kglink.sources import Problems, Source
from kglink.text.markup import parse_marked
from kglink.text.printable import writable

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


Settings = TypeVar("Settings", bound=PluginSettings)


class OneTextAdapter(Generic[Settings]):
    """Reads a source as the one ``document`` that a function makes of it."""

    def __init__(
        self, document: Callable[[Source, Settings], Document], settings: Settings
    ) -> None:
        self._document = document
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """The document; what is wrong with its text goes to ``problems``."""
        try:
            document = self._document(source, self._settings)
        except RecordError as error:
            problems.report(error)
            return
        yield document


def document_of_parts(
    source: Source, kind: str, parts: Iterable[tuple[str, str]], *, title: str = ""
) -> Document:
    """One document of named parts; ``meta`` says its format, and where each part stands.

    Parts without a word are left out, and so are NULs and halves of surrogate pairs.
    """
    text, places = joined_parts((name, writable(raw, "").strip()) for name, raw in parts)
    title = " ".join(writable(title, "").split())
    meta: dict[str, object] = {"format": kind, **({"title": title} if title else {})}
    return Document(source.name, text, title=title, meta={**meta, "parts": places})


def joined_parts(parts: Iterable[tuple[str, str]]) -> tuple[str, list[dict[str, object]]]:
    """One text of named parts, and where each stands; empty ones are left out."""
    pieces: list[str] = []
    places: list[dict[str, object]] = []
    length = 0
    for name, part in parts:
        if part:
            begin = length + len(_BREAK) * bool(pieces)
            length = begin + len(part)
            places.append({"part": name, "start": begin, "end": length})
            pieces.append(part)
    return _BREAK.join(pieces), places


def document(source: Source, settings: PlainSettings) -> Document:
    """A whole source as one text, with the mentions that are marked in it by hand."""
    text = source.text()
    try:
        text, spans = parse_marked(text) if settings.marked else (text, [])
    except RecordError as error:
        where = f"{source.name}, {error.where}"
        raise RecordError(error.reason, where=where, hint=error.hint) from error
    mentions = (Mention(one.start, one.end, text[one.start : one.end]) for one in spans)
    return Document(source.name, text, tuple(mentions))
