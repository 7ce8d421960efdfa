"""Streams the objects of a JSON source: one object per line, or one array of objects."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from kglink.errors import RecordError, SourceError
from kglink.sources import Problems, Source, check_text
from kglink_kbs.values import described

_BOM = b"\xef\xbb\xbf"
_READ = 2**18


class JsonObject(NamedTuple):
    """An object and the number of the line on which it begins."""

    line: int
    fields: dict[str, Any]


def is_array(head: bytes) -> bool:
    """Whether JSON that begins like this is one array and not one object per line."""
    return head.removeprefix(_BOM).lstrip()[:1] == b"["


def json_objects(source: Source, problems: Problems) -> Iterator[JsonObject]:
    """The objects of ``source`` in their order."""
    array = is_array(source.head.head)
    found = False
    for line, value in _array_items(source) if array else _lines(source, problems):
        found = True
        match value:
            case dict():
                yield JsonObject(line, value)
            case RecordError():
                problems.report(value)
            case _:
                reason = f"found {described(value)} where an object is wanted"
                problems.report(RecordError(reason, where=source.where(line)))
    if not found:
        raise SourceError(f"{source.label} holds no record", hint="It has blank lines only.")


def _lines(source: Source, problems: Problems) -> Iterator[tuple[int, object]]:
    for number, text in source.lines(problems):
        if not text or text.isspace():
            continue
        try:
            value: object = json.loads(text)
        except json.JSONDecodeError as error:
            value = RecordError(
                f"not valid JSON: {error.msg} (column {error.colno})",
                where=source.where(number),
                hint=_ONE_PER_LINE if text.strip() in "{[" else "",
            )
        except (ValueError, RecursionError) as error:  # numbers and nestings without end
            value = RecordError(f"not usable JSON: {error}", where=source.where(number))
        yield number, value


_ONE_PER_LINE = "Write one object per line; jq -c . FILE does that."


class _Window:
    """The part of a text stream that is being looked at, and the line on which it begins."""

    def __init__(self, stream: BinaryIO, label: str) -> None:
        self._stream = stream
        self._label = label
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._bytes = 0
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


def _array_items(source: Source) -> Iterator[tuple[int, object]]:
    check_text(source.label, source.head.head)
    with source.open() as stream:
        window = _Window(stream, source.label)
        window.sign()
        window.move(window.start + 1)
        if window.sign() == "]":
            window.move(window.start + 1)
        else:
            yield from _items(source, window)
        if window.sign():
            raise _broken(source, window.line, "something follows the array")


def _items(source: Source, window: _Window) -> Iterator[tuple[int, object]]:
    while True:
        if not window.sign():
            raise _broken(source, window.line, "the array does not end")
        line = window.line
        yield line, _item(source, window)
        sign = window.sign()
        if sign not in (",", "]"):
            raise _broken(source, window.line, "',' or ']' is missing after an item")
        window.move(window.start + 1)
        if sign == "]":
            return


def _item(source: Source, window: _Window) -> object:
    """The next item; the window grows until it holds all of it."""
    decoder = json.JSONDecoder()
    limit = source.limits.max_line_bytes
    size = _READ
    while True:
        try:
            value, end = decoder.raw_decode(window.text, window.start)
        except RecursionError as error:
            raise _broken(source, window.line, str(error)) from error
        except ValueError as error:
            if window.ended or len(window.text) - window.start > limit:
                reason = getattr(error, "msg", str(error))
                at = getattr(error, "pos", window.start)
                line = window.line + window.text.count("\n", window.start, at)
                raise _broken(source, line, reason) from error
        else:
            if end < len(window.text) or window.ended:
                window.move(end)
                return value
        window.more(size)
        size *= 2


def _broken(source: Source, line: int, reason: str) -> SourceError:
    return SourceError(
        f"{source.where(line)}: not valid JSON: {reason}",
        hint="An array cannot be read past its first fault; with one object per line "
        "(jq -c '.[]' FILE) such records can be skipped.",
    )
