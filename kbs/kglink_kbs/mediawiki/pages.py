"""Cuts an export into pieces of whole pages, and reads their ``<page>`` elements with expat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn, Self
from xml.parsers import expat

from kglink.errors import SourceError

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType


def refuse_declarations(parser: XMLParserType, label: str) -> None:
    """Stop at a document type: an export has none, and entities can be bombs."""

    def refuse(*_: Any) -> NoReturn:
        raise SourceError(
            f"{label} declares a document type or entities (line "
            f"{parser.CurrentLineNumber:,}), which no MediaWiki export does",
            hint="It may be an entity-expansion bomb; kglink does not read such files.",
        )

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse


_WANTED = frozenset({"title", "ns", "id", "text", "model"})
_ROOT, _END = b"<mediawiki>", b"</mediawiki>"
_PAGE_END = b"</page>"
_PAGE = re.compile(rb"<page(?=[\s>])")
_TITLE = re.compile(rb"<title>([^<]{1,1000})</title>")
_FILLER = re.compile(rb"\s*+(?:</mediawiki>\s*+)?")
_TEXT_BUFFER = 2**20
_DAMAGED = (
    "The export is damaged here; download it again, or pass over such pages with --on-error skip."
)
#: Wikipedia's own limit for a text is 2 MB; its markup in XML is a little longer.
MAX_PAGE_BYTES = 50 * 2**20


class RawPage(NamedTuple):
    """A page of an export with its last revision."""

    id: str
    title: str
    ns: str
    redirect: str
    text: str
    model: str


class BadPage(NamedTuple):
    """A page that cannot be read: why, and where it stands."""

    reason: str
    where: str
    hint: str


class PageReader:
    """Collects the pages that one parser reports.

    Elements are known by their names alone: of those that occur twice, a page's first ``id`` is
    its own, and a revision's first ``text`` and ``model`` are those of its main slot.
    """

    def __init__(self, parser: XMLParserType, limit: int, label: str) -> None:
        self.pages: list[RawPage | BadPage] = []
        self._parser = parser
        self._limit = limit
        self._label = label
        self._first_byte = 0
        self._fields: dict[str, str] = {}
        self._pieces: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        if name in _WANTED:
            self._pieces = []
            self._parser.CharacterDataHandler = self._pieces.append
        elif name == "page":
            self._fields = {}
            self._first_byte = self._parser.CurrentByteIndex
        elif name == "revision":
            self._fields.setdefault("id", "")  # the ids that follow are not the page's
            self._fields.pop("text", None)
            self._fields.pop("model", None)
        elif name == "redirect":
            self._fields[name] = attributes.get("title", "")

    def end(self, name: str) -> None:
        """An element ends."""
        if name in _WANTED:
            self._fields.setdefault(name, "".join(self._pieces))
            self._parser.CharacterDataHandler = None
        elif name == "page":
            get = self._fields.get
            page: RawPage | BadPage = RawPage(
                get("id", "").strip(),
                " ".join(get("title", "").split()),
                get("ns", "").strip(),
                get("redirect", ""),
                get("text", ""),
                get("model", "").strip(),
            )
            if self._parser.CurrentByteIndex - self._first_byte > self._limit:
                page = too_large(get("title", ""), self._limit, self._label)
            self.pages.append(page)


def read_pages(
    piece: bytes, offset: int, label: str, limit: int = MAX_PAGE_BYTES
) -> list[RawPage | BadPage]:
    """The pages of a piece that begins at byte ``offset``; a bad one does not hide the others."""
    with suppress(expat.ExpatError):
        return _parse(piece, label, limit)
    # It is damaged: each is read on its own.
    pages: list[RawPage | BadPage] = []
    at = 0
    for found in _PAGE.finditer(piece):
        start = found.start()
        if start < at:
            continue
        if not _FILLER.fullmatch(piece[at:start]):
            pages.append(no_page(offset + at, label))
        end = piece.find(_PAGE_END, start)
        at = len(piece) if end < 0 else end + len(_PAGE_END)
        pages += _one(piece[start:at], offset + start, label, limit)
    if not _FILLER.fullmatch(piece[at:]):
        pages.append(no_page(offset + at, label))
    return pages


def too_large(title: str, limit: int, label: str) -> BadPage:
    """What is wrong with a page that would fill the memory."""
    return BadPage(
        f"the page is larger than {limit / 2**20:,g} MB",
        f"{label}, page {title!r}",
        "If it is right, raise the adapter's max_page_mb.",
    )


def title_in(data: bytes) -> str:
    """The title of a page whose XML cannot be read."""
    found = _TITLE.search(data)
    return found[1].decode("utf-8", "replace") if found else ""


def _parse(piece: bytes, label: str, limit: int) -> list[RawPage | BadPage]:
    parser = expat.ParserCreate("utf-8")
    reader = PageReader(parser, limit, label)
    refuse_declarations(parser, label)
    parser.buffer_text = True
    parser.buffer_size = _TEXT_BUFFER
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    for part, final in ((_ROOT, False), (piece, False), (_END, True)):
        parser.Parse(part, final)
    return reader.pages


def _one(data: bytes, offset: int, label: str, limit: int) -> list[RawPage | BadPage]:
    try:
        return _parse(data, label, limit)
    except expat.ExpatError as error:
        line_start = 0
        for _ in range(error.lineno - 1):
            line_start = data.find(b"\n", line_start) + 1
        ahead = len(_ROOT) if error.lineno == 1 else 0
        at = min(max(line_start + error.offset - ahead, 0), len(data))
        place = f"byte {offset + at:,} of the unpacked file"
        title = title_in(data)
        return [
            BadPage(
                f"no well-formed XML: {expat.ErrorString(error.code)}",
                f"{label}, page {title!r}, {place}" if title else f"{label}, {place}",
                _DAMAGED,
            )
        ]


def no_page(offset: int, label: str) -> BadPage:
    """What is wrong with bytes between two pages."""
    where = f"{label}, byte {offset:,} of the unpacked file"
    return BadPage("something that is no page", where, _DAMAGED)


_MOST_HEADER = 8 * 2**20
_HEAD_OF_PAGE = 2**16


@dataclass
class Export:
    """An export as it is read; where it is cut depends on its bytes alone."""

    stream: BinaryIO
    label: str
    piece_bytes: int
    max_page_bytes: int
    report: Callable[[BadPage], None]

    def __post_init__(self) -> None:
        self._held = bytearray()
        self._offset = 0
        self._header: bytes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def header(self) -> bytes:
        """Everything before the first page."""
        if self._header is None:
            while not (found := _PAGE.search(self._held)) and self._more():
                if len(self._held) > _MOST_HEADER:
                    raise SourceError(
                        f"{self.label}: no page in the first {_MOST_HEADER:,} bytes",
                        hint="A MediaWiki export has its pages right behind <siteinfo>.",
                    )
            end = self._held.find(_END)
            before = end if end >= 0 else len(self._held)
            self._header = self._take(found.start() if found else before)
        return self._header

    def pieces(self) -> Iterator[tuple[str, int, bytes]]:
        """The pages in pieces of about the same size: their file, their place in it, their bytes.

        The place is that in the unpacked file.
        """
        self.header()
        searched = 0
        while True:
            more = self._more()
            end = self._held.rfind(_PAGE_END, searched)
            if end >= 0:
                offset = self._offset
                yield self.label, offset, self._take(end + len(_PAGE_END))
                searched = 0
            elif len(self._held) > self.max_page_bytes:
                self._skip_page()
                searched = 0
            else:
                searched = max(0, len(self._held) - len(_PAGE_END))
            if not more:
                break
        self._check_end()

    def _more(self) -> bool:
        data = self.stream.read(self.piece_bytes)
        self._held += data
        return bool(data)

    def _take(self, size: int) -> bytes:
        data = bytes(memoryview(self._held)[:size])
        del self._held[:size]
        self._offset += size
        return data

    def _skip_page(self) -> None:
        """Read past a page that is too large, without holding more than a piece of it."""
        title = title_in(bytes(self._held[:_HEAD_OF_PAGE]))
        self.report(too_large(title, self.max_page_bytes, self.label))
        while (end := self._held.find(_PAGE_END)) < 0:
            self._take(max(0, len(self._held) - len(_PAGE_END)))
            if not self._more():
                return
        self._take(end + len(_PAGE_END))

    def _check_end(self) -> None:
        end = self._held.find(_END)
        if end >= 0:
            if self._held[:end].strip():
                self.report(no_page(self._offset, self.label))
            return
        title = title_in(bytes(self._held[:_HEAD_OF_PAGE]))
        place = f"in page {title!r}" if title else "between two pages"
        raise SourceError(
            f"{self.label} is cut short: it ends {place}, at byte "
            f"{self._offset + len(self._held):,} of the unpacked file",
            hint="An export ends with </mediawiki>; copy or download it again.",
        )
