"""HTML pages as plain text: what a reader sees of them, in the time of one pass.

Read as browsers read: any bytes are a page, and a tag, comment or script that is never closed goes
to the end. Not read are scripts, styles, navigation, forms and pictures; code blocks (``pre``) and
tables are read where the settings say so. A table without a header is taken for a layout, as old
pages and mails have it, and is always read. Markdown is read as its page would show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kglink.records import Document
from kglink.sources import Source, SourceHead
from kglink.text.plain import raised
from kglink_kbs.texts.plain import TextSettings, document_of_parts
from kglink_kbs.values import unescaped

if TYPE_CHECKING:
    from markdown_it.rules_core import StateCore


_NAMES = (".html", ".htm", ".xhtml")
_BEGINS = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^>]*+>\s*+)?"
    rb"(?><!--.{0,2000}?-->\s*)*+<(?:!doctype\s+html|html[\s>])",
    re.I | re.S,
)

#: Their content is text and no markup; but for the title, nobody sees it.
_RAW = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"})
#: Left out with everything that is in them.
_LEFT_OUT = frozenset(
    {"template", "noscript", "svg", "math", "nav", "select", "button", "object", "audio", "video"}
)
_PARAGRAPHS = frozenset(
    {
        *("p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "ul", "ol", "dl", "table"),
        *("article", "section", "header", "footer", "main", "aside", "figure", "hr", "form"),
    }
)
_LINES = frozenset(
    {"div", "li", "dt", "dd", "tr", "br", "address", "figcaption", "caption", "option", "summary"}
)
_CELLS = frozenset({"td", "th"})
#: A table that has one of these is a table, and no layout.
_HEADERS = frozenset({"th", "thead", "caption"})

#: In these, and in pages of XML, a tag that ends in "/>" is closed.
_FOREIGN = frozenset({"svg", "math"})
_IS_XML = re.compile(r"\s*<\?xml\b|(?>\s*<![^>]*>)*\s*<html\b[^>]*xmlns=", re.I)

_TAG_NAME = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
#: A tag ends at ``>``, but for one in a quoted value.
_TAG_END = re.compile(r">|=\s*([\"'])")
_SPACE = re.compile(r"[ \t\n\r\f\v\u00a0]+")


class _Token(NamedTuple):
    """A piece of text (``tag`` is empty), or a tag; ``text`` of a raw element is its content."""

    tag: str
    text: str = ""
    closes: bool = False


class HtmlText(NamedTuple):
    """What is read of a page."""

    title: str
    text: str


def document(source: Source, settings: TextSettings) -> Document:
    """A page of HTML."""
    page = html_text(source.text(), settings)
    return document_of_parts(source, "html", [("body", page.text)], title=page.title)


def sniff(head: SourceHead) -> float:
    """Sure of what begins as a page; its name alone tells it too."""
    if _BEGINS.match(head.head):
        return 0.9
    return 0.8 if head.name.lower().endswith(_NAMES) and b"<" in head.head else 0.0


def html_text(page: str, settings: TextSettings) -> HtmlText:
    """Title and text of a page."""
    reader = _Reader(settings)
    for token in _tokens(page):
        reader.take(token)
    return reader.finished()


class _Reader:
    """Puts the text of a page together, tag by tag."""

    def __init__(self, settings: TextSettings) -> None:
        self._settings = settings
        self._title = ""
        self._pieces: list[str] = []
        self._tables: list[int] = []
        """Where each open table begins in the pieces."""
        self._real_tables: set[int] = set()
        """The open tables, by their depth, that have a header."""
        self._never_read = _LEFT_OUT if settings.code else _LEFT_OUT | {"pre"}
        self._left_out = ""
        self._depth = 0
        self._in_code = self._is_raised = False

    def take(self, token: _Token) -> None:
        """Add a piece of text, or what a tag does to it."""
        if self._left_out:
            if token.tag == self._left_out:
                self._depth += -1 if token.closes else 1
                if not self._depth:
                    self._left_out = ""
        elif not token.tag:
            self._add(token.text)
        elif token.tag in _RAW:
            if token.tag == "title" and not self._title:
                self._title = unescaped(token.text)
        elif not token.closes and token.tag in self._never_read:
            self._left_out, self._depth = token.tag, 1
            self._break("\n\n")
        else:
            self._mark(token)

    def finished(self) -> HtmlText:
        """What was read; tables that were never closed end here."""
        while self._tables:
            self._close_table()
        return HtmlText(self._title, "".join(self._pieces).strip())

    def _add(self, text: str) -> None:
        text = unescaped(text)
        if not self._in_code:
            text = _SPACE.sub(" ", raised(text) if self._is_raised else text)
            if not self._pieces or self._pieces[-1][-1] in " \n":
                text = text.removeprefix(" ")
        if text:
            self._pieces.append(text)

    def _break(self, lines: str) -> None:
        """End a line or a paragraph; several ends in a row are one, the greatest."""
        self._is_raised = False
        if self._pieces and not self._in_code:
            self._pieces[-1] = self._pieces[-1].rstrip(" ")
        while self._pieces and not self._pieces[-1]:
            self._pieces.pop()
        if self._pieces and not self._pieces[-1].strip("\n"):
            self._pieces[-1] = max(self._pieces[-1], lines, key=len)
        elif self._pieces:
            self._pieces.append(lines)

    def _mark(self, token: _Token) -> None:
        tag = token.tag
        if tag in _PARAGRAPHS:
            self._break("\n\n")
        elif tag in _LINES:
            self._break("\n")
        elif tag in _CELLS:
            self._add(" ")
        elif tag == "sup":
            self._is_raised = not token.closes
        if tag == "pre":
            self._in_code = not token.closes
        elif tag == "table" and not token.closes:
            self._tables.append(len(self._pieces))
        elif tag == "table":
            self._close_table()
        elif tag in _HEADERS and self._tables:
            self._real_tables.add(len(self._tables))

    def _close_table(self) -> None:
        """Forget what stands in a table that is one, unless tables are read."""
        if not self._tables:
            return
        depth, begin = len(self._tables), self._tables.pop()
        if depth in self._real_tables:
            self._real_tables.remove(depth)
            if not self._settings.tables:
                del self._pieces[begin:]


def _tokens(page: str) -> Iterator[_Token]:
    """The tags of a page and the text between them, in one pass."""
    place = 0
    is_xml = _IS_XML.match(page) is not None
    foreign = 0
    while (begin := page.find("<", place)) >= 0:
        found = _TAG_NAME.match(page, begin)
        if found is None and page[begin + 1 : begin + 2] not in ("!", "?", "/"):
            yield _Token("", page[place : begin + 1])
            place = begin + 1
            continue
        if begin > place:
            yield _Token("", page[place:begin])
        if found is None:
            place = _past(page, "-->" if page.startswith("<!--", begin) else ">", begin)
            continue
        tag, closes = found[2].lower(), bool(found[1])
        place = _past_tag(page, found.end())
        if tag in _FOREIGN:
            foreign = max(0, foreign + (-1 if closes else 1))
        if (is_xml or foreign) and not closes and page.endswith("/>", begin, place):
            foreign -= tag in _FOREIGN
            if tag not in _RAW and tag not in _LEFT_OUT:
                yield _Token(tag)
                yield _Token(tag, closes=True)
            continue
        if tag in _RAW and not closes:
            closing = re.compile(rf"</{tag}(?=[\s/>])", re.I).search(page, place)
            end = closing.start() if closing else len(page)
            yield _Token(tag, page[place:end])
            place = end
        else:
            yield _Token(tag, closes=closes)
    if place < len(page):
        yield _Token("", page[place:])


def _past_tag(page: str, place: int) -> int:
    while (ending := _TAG_END.search(page, place)) and ending[1]:
        place = _past(page, ending[1], ending.end())
    return ending.end() if ending else len(page)


def _past(page: str, end: str, place: int) -> int:
    found = page.find(end, place)
    return found + len(end) if found >= 0 else len(page)


_MARKDOWN_NAMES = (".md", ".markdown", ".mdown", ".mkd")
#: Settings that site generators put before the text.
_FRONT = re.compile(r"---[ \t]*\r?\n.*?^(?:---|\.\.\.)[ \t]*$", re.S | re.M)

#: Longer paragraphs are read as they stand: to find emphasis and links in a text that was made to
#: be slow takes time that grows with its square.
_LONGEST_PARAGRAPH = 5000


def markdown_document(source: Source, settings: TextSettings) -> Document:
    """A page of Markdown."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.core.ruler.at("inline", _read_paragraphs)
    text = source.text()
    front = _FRONT.match(text)
    page = parser.render(text[front.end() :] if front else text)
    return document_of_parts(source, "markdown", [("body", html_text(page, settings).text)])


def _read_paragraphs(state: StateCore) -> None:
    """Read the marks in all paragraphs but the longest."""
    from markdown_it.token import Token

    for token in state.tokens:
        if token.type == "inline" and len(token.content) > _LONGEST_PARAGRAPH:
            token.children = [Token("text", "", 0, content=token.content)]
        elif token.type == "inline":
            token.children = token.children if token.children is not None else []
            state.md.inline.parse(token.content, state.md, state.env, token.children)


def sniff_markdown(head: SourceHead) -> float:
    """Sure of a file by its name alone: any text is Markdown."""
    return 0.8 if head.name.lower().endswith(_MARKDOWN_NAMES) and b"\0" not in head.head else 0.0
