r"""Mentions marked by hand: ``Ada met [[Bob]]`` is the text ``Ada met Bob`` with one span.

A mark stays on one line and holds no other mark. ``\[[`` writes two brackets that open none, and
inside a mark ``\]`` a bracket that does not close it; backslashes count as escapes only in front
of brackets, and only in a text that has ``[[`` at all. ``]]`` outside a mark is plain text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kglink.errors import RecordError
from kglink.records import Span

_TOKEN = re.compile(r"(?P<slashes>(?<!\\)\\++)(?=[\[\]])|\[\[|\]\]|[\r\n]")
_HINT = r"Write a mention as [[like this]] on one line, and brackets that are none as \[[."


def parse_marked(text: str) -> tuple[str, list[Span]]:
    """The text without its marks, and the marked spans in it."""
    if "[[" not in text:
        return text, []
    return _Parser(text).parse()


class _Open(NamedTuple):
    """An open mark: where it begins in the marked text, in the clean text, and in its pieces."""

    place: int
    start: int
    piece: int


class _Parser:
    """Reads one marked text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces: list[str] = []
        self._length = 0
        self._spans: list[Span] = []
        self._mark: _Open | None = None

    def parse(self) -> tuple[str, list[Span]]:
        """The clean text and its spans."""
        place = 0
        while token := _TOKEN.search(self._text, place):
            self._add(self._text[place : token.start()])
            place = self._read(token)
        self._add(self._text[place:])
        if self._mark is not None:
            raise self._error("the mark [[ is never closed by ]]", self._mark.place)
        return "".join(self._pieces), self._spans

    def _read(self, token: re.Match[str]) -> int:
        """Take one token; the answer is where to go on."""
        if token["slashes"]:
            count = len(token["slashes"])
            escaped = self._text[token.end()] if count % 2 else ""
            self._add("\\" * (count // 2) + escaped)
            return token.end() + len(escaped)
        if token[0] == "[[":
            place = token.start()
            if self._mark is not None:
                raise self._error("[[ inside a mark that is still open", place)
            self._mark = _Open(place, self._length, len(self._pieces))
        elif self._mark is None:
            self._add(token[0])
        elif token[0] == "]]":
            if not "".join(self._pieces[self._mark.piece :]).strip():
                raise self._error("the mark holds no text", self._mark.place)
            self._spans.append(Span(self._mark.start, self._length))
            self._mark = None
        else:
            raise self._error("the mark [[ is not closed on its line", self._mark.place)
        return token.end()

    def _add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)

    def _error(self, message: str, place: int) -> RecordError:
        line = self._text.count("\n", 0, place) + 1
        return RecordError(message, where=f"character {place + 1} (line {line})", hint=_HINT)
