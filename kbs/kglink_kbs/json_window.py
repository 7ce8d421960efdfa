"""A window on a JSON text that is too large to be held: values are taken from it one by one."""

from __future__ import annotations

import codecs
import json
from typing import BinaryIO

from kglink.errors import SourceError
from kglink.sources import Source

_READ = 2**18


class JsonWindow:
    """The part of a text stream that is being looked at, and the line on which it begins."""

    def __init__(self, stream: BinaryIO, label: str) -> None:
        self._stream = stream
        self._label = label
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._bytes = 0
        self.decode = json.JSONDecoder().raw_decode
        self.text = ""
        self.start = 0
        self.line = 1
        self.ended = False

    def more(self, size: int = _READ) -> None:
        """Drop what is done with and read on."""
        data = self._stream.read(size)
        self.ended = not data
        try:
            piece = self._decoder.decode(data, final=self.ended)
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{self._label} is not valid UTF-8 near byte {self._bytes:,} (unpacked)",
                hint="If it is Latin-1 or Windows-1252: iconv -f WINDOWS-1252 -t UTF-8 FILE",
            ) from error
        self._bytes += len(data)
        self.text = self.text[self.start :] + piece
        self.start = 0

    def move(self, end: int) -> None:
        """Be done with everything before ``end``."""
        self.line += self.text.count("\n", self.start, end)
        self.start = end

    def sign(self) -> str:
        """The next character that is no white space; empty at the end."""
        while True:
            rest = len(self.text)
            place = self.start
            while place < rest and self.text[place] in " \t\r\n":
                place += 1
            self.move(place)
            if place < rest:
                return self.text[place]
            if self.ended:
                return ""
            self.more()


def next_value(source: Source, window: JsonWindow, hint: str) -> object:
    """The next value; the window grows until it holds all of it."""
    limit = source.limits.max_line_bytes
    size = _READ
    while True:
        try:
            value, end = window.decode(window.text, window.start)
        except RecursionError as error:
            raise broken(source, window.line, str(error), hint) from error
        except ValueError as error:
            if window.ended or len(window.text) - window.start > limit:
                reason = getattr(error, "msg", str(error))
                at = getattr(error, "pos", window.start)
                line = window.line + window.text.count("\n", window.start, at)
                raise broken(source, line, reason, hint) from error
        else:
            if end < len(window.text) or window.ended:
                window.move(end)
                return value
        window.more(size)
        size *= 2


def broken(source: Source, line: int, reason: str, hint: str) -> SourceError:
    """The error of a text that is no JSON from here on."""
    return SourceError(f"{source.where(line)}: not valid JSON: {reason}", hint=hint)
