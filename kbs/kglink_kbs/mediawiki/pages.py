"""Reads whole ``<page>`` elements with expat: one parser for a piece of a dump."""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.parsers import expat

from kglink_kbs.mediawiki.expat_errors import refuse_declarations, what_expat_says

_ROOT, _END = b"<mediawiki>", b"</mediawiki>"
_PAGE = re.compile(rb"<page(?=[\s>])")
_TITLE = re.compile(rb"<title>([^<]{1,1000})</title>")
_WIKITEXT_MODELS = frozenset({"", "wikitext"})
_TEXT_BUFFER = 2**20


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
    """Collects pages from what expat reports."""

    def __init__(self) -> None:
        self.pages: list[RawPage] = []
        self._depth = 0
        self._of_page: dict[str, str] = {}
        self._of_revision: dict[str, str] = {}
        self._pieces: list[str] = []
        self._wanted = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self._depth += 1
        self._wanted = False
        match self._depth:
            case 2:
                self._of_page = {}
                self._of_revision = {}
            case 3:
                self._wanted = name in {"title", "ns", "id"}
                if name == "redirect":
                    self._of_page[name] = attributes.get("title", "")
                elif name == "revision":
                    self._of_revision = {}
            case 4:
                self._wanted = name in {"text", "model"}
        self._pieces.clear()

    def text(self, data: str) -> None:
        """Text inside an element."""
        if self._wanted:
            self._pieces.append(data)

    def end(self, name: str) -> None:
        """An element ends."""
        if self._wanted:
            place = self._of_page if self._depth == 3 else self._of_revision
            place.setdefault(name, "".join(self._pieces))
            self._wanted = False
        elif self._depth == 2 and name == "page":
            self._keep()
        self._pieces.clear()
        self._depth -= 1

    def _keep(self) -> None:
        page, revision = self._of_page.get, self._of_revision.get
        self.pages.append(
            RawPage(
                page("id", "").strip(),
                " ".join(page("title", "").split()),
                page("ns", "").strip(),
                page("redirect", ""),
                revision("text", ""),
                revision("model", "").strip(),
            )
        )


def read_pages(piece: bytes, offset: int, label: str) -> list[RawPage | BadPage]:
    """The pages of a piece that begins at byte ``offset``; a bad one does not hide the others."""
    try:
        return list(_parse(piece, label))
    except expat.ExpatError:
        return [page for start, stop in _spans(piece) for page in _one(piece, start, stop, offset, label)]


def is_wikitext(page: RawPage) -> bool:
    """Whether the page's text is an article, not a style sheet or a program."""
    return page.model in _WIKITEXT_MODELS


def _parse(piece: bytes, label: str) -> list[RawPage]:
    reader = PageReader()
    parser = expat.ParserCreate("utf-8")
    refuse_declarations(parser, label)
    parser.buffer_text = True
    parser.buffer_size = _TEXT_BUFFER
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    for part, final in ((_ROOT, False), (piece, False), (_END, True)):
        parser.Parse(part, final)
    return reader.pages


def _spans(piece: bytes) -> list[tuple[int, int]]:
    starts = [found.start() for found in _PAGE.finditer(piece)] or [0]
    return list(zip(starts, [*starts[1:], len(piece)], strict=True))


def _one(piece: bytes, start: int, stop: int, offset: int, label: str) -> list[RawPage | BadPage]:
    data = piece[start:stop]
    try:
        return list(_parse(data, label))
    except expat.ExpatError as error:
        place = offset + start + _place_of(error, data)
        title = title_in(data)
        return [
            BadPage(
                f"no well-formed XML: {what_expat_says(error)}",
                f"{label}, page {title!r}, byte {place:,} of the unpacked file"
                if title
                else f"{label}, byte {place:,} of the unpacked file",
                "The export is damaged here; download it again, or pass over such pages with "
                "--on-error skip.",
            )
        ]


def title_in(data: bytes) -> str:
    """The title of a page whose XML cannot be read."""
    found = _TITLE.search(data)
    return found[1].decode("utf-8", "replace") if found else ""


def _place_of(error: expat.ExpatError, data: bytes) -> int:
    """The byte of ``data`` at which expat gave up, by line and column."""
    line_start = 0
    for _ in range(error.lineno - 1):
        line_start = data.find(b"\n", line_start) + 1
    ahead = len(_ROOT) if error.lineno == 1 else 0
    return min(max(line_start + error.offset - ahead, 0), len(data))
