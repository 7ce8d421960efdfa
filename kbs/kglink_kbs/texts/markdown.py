"""Markdown as plain text: what its page would show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kglink.records import Document
from kglink.sources import Source, SourceHead
from kglink_kbs.texts.html import html_text
from kglink_kbs.texts.plain import OneTextAdapter, TextSettings, document_of_parts

if TYPE_CHECKING:
    from markdown_it.rules_core import StateCore

_NAMES = (".md", ".markdown", ".mdown", ".mkd")
#: Settings that site generators put before the text.
_FRONT = re.compile(r"---[ \t]*\r?\n.*?^(?:---|\.\.\.)[ \t]*$", re.S | re.M)

#: Longer paragraphs are read as they stand: to find emphasis and links in a text that was made to
#: be slow takes time that grows with its square.
_LONGEST_PARAGRAPH = 5000


class MarkdownAdapter(OneTextAdapter):
    """Reads a page as one document."""

    def __init__(self, settings: TextSettings) -> None:
        from markdown_it import MarkdownIt

        self._settings = settings
        self._parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self._parser.core.ruler.at("inline", _read_paragraphs)

    def document(self, source: Source) -> Document:
        """The page."""
        text = source.text()
        front = _FRONT.match(text)
        page = self._parser.render(text[front.end() :] if front else text)
        body = html_text(page, self._settings).text
        return document_of_parts(source, "markdown", [("body", body)])


def _read_paragraphs(state: StateCore) -> None:
    """Read the marks in all paragraphs but the longest."""
    from markdown_it.token import Token

    for token in state.tokens:
        if token.type == "inline" and len(token.content) > _LONGEST_PARAGRAPH:
            token.children = [Token("text", "", 0, content=token.content)]
        elif token.type == "inline":
            token.children = token.children if token.children is not None else []
            state.md.inline.parse(token.content, state.md, state.env, token.children)


def sniff(head: SourceHead) -> float:
    """Sure of a file by its name alone: any text is Markdown."""
    return 0.8 if head.name.lower().endswith(_NAMES) and b"\0" not in head.head else 0.0
