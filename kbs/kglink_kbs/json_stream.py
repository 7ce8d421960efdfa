"""JSON texts of any size, read value by value: their objects, or a walk through one value."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from kglink.errors import RecordError, SourceError
from kglink.sources import Problems, Source
from kglink.sources.encoding import convert_hint
from kglink_kbs.values import described

_OF_NUMBERS = frozenset("0123456789.eE+-")
_READ = 2**18


def is_array(head: bytes) -> bool:
    """Whether JSON that begins like this is one array and not one object per line."""
    return head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["


def json_objects(source: Source, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of ``source`` in their order, each with the line on which it begins."""
    array = is_array(source.head.head)
    found, skipped = False, problems.total
    for line, value in _array_items(source) if array else _lines(source, problems):
        found = True
        match value:
            case dict():
                yield line, value
            case RecordError():
                problems.report(value)
            case _:
                reason = f"found {described(value)} where an object is wanted"
                problems.refuse(reason, source.where(line))
    if not found and problems.total == skipped:
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
                hint="Write one object per line; jq -c . FILE does that."
                if text.strip() in "{["
                else "",
            )
        except (ValueError, RecursionError) as error:  # numbers and nestings without end
            value = RecordError(f"not usable JSON: {error}", where=source.where(number))
        yield number, value


def _array_items(source: Source) -> Iterator[tuple[int, object]]:
    hint = (
        "An array cannot be read past its first fault; with one object per line "
        "(jq -c '.[]' FILE) such records can be skipped."
    )
    with source.open_text() as stream:
        walk = JsonWalk(source, stream, hint)
        for _ in walk.items():
            yield walk.line, walk.value()
        walk.end()


class JsonWalk:
    """Stands at a place in a JSON text; `members` and `items` step into what begins there.

    Whoever steps through members or items takes (`value`) or passes over (`skip`) each of them
    before the next. The text is held as far as the value that is read.
    """

    def __init__(self, source: Source, stream: BinaryIO, hint: str) -> None:
        self._source = source
        self._stream = stream
        self._hint = hint
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._decode = json.JSONDecoder().raw_decode
        self._bytes = 0
        self._text = ""
        self._start = 0
        self._ended = False
        self.line = 1
        """The number of the line."""
        self.sign()

    def _more(self, size: int = _READ) -> None:
        """Drop what is done with and read on."""
        data = self._stream.read(size)
        self._ended = not data
        try:
            piece = self._utf8.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{self._source.label} is not valid UTF-8 at byte {self._bytes + error.start:,}"
                f"{self._source.unpacked}",
                hint=convert_hint(self._source.file),
            ) from error
        self._bytes += len(data)
        self._text = self._text[self._start :] + piece
        self._start = 0

    def _move(self, end: int) -> None:
        """Be done with everything before ``end``."""
        self.line += self._text.count("\n", self._start, end)
        self._start = end

    def sign(self) -> str:
        """The sign with which the next value or mark begins; empty at the end."""
        while True:
            rest = len(self._text)
            place = self._start
            while place < rest and self._text[place] in " \t\r\n":
                place += 1
            self._move(place)
            if place < rest:
                return self._text[place]
            if self._ended:
                return ""
            self._more()

    def value(self) -> object:
        """The value that begins here, as a whole."""
        self.sign()
        size = _READ
        while True:
            try:
                value, end = self._decode(self._text, self._start)
            except RecursionError as error:
                raise self.broken(str(error)) from error
            except ValueError as error:
                if (
                    self._ended
                    or len(self._text) - self._start > self._source.limits.max_line_bytes
                ):
                    self._move(getattr(error, "pos", self._start))
                    raise self.broken(getattr(error, "msg", str(error))) from error
            else:
                # A number may go on behind what was read: "1" of "1.5".
                if self._ended or (end < len(self._text) and self._text[end] not in _OF_NUMBERS):
                    self._move(end)
                    return value
            self._more(size)
            size *= 2

    def skip(self) -> None:
        """Pass over the value that begins here; a list item by item."""
        if self.sign() == "[":
            for _ in self.items():
                self.value()
        else:
            self.value()

    def members(self) -> Iterator[str]:
        """The names in the object that begins here; each time its value comes next."""
        self._take("{")
        if self.sign() == "}":
            self._take("}")
            return
        while True:
            name = self.value() if self.sign() == '"' else None
            if not isinstance(name, str):
                raise self.broken("a name in quotes is missing in an object")
            self._take(":")
            yield name
            if self._separated("}"):
                return

    def begun(self) -> dict[str, Any]:
        """The object that begins here, as far as it goes; a last name may have lost its value."""
        fields: dict[str, Any] = {}
        with suppress(SourceError):
            for name in self.members():
                fields[name] = None
                fields[name] = self.value()
        return fields

    def items(self) -> Iterator[None]:
        """Stops once before each item of the list that begins here."""
        self._take("[")
        if self.sign() == "]":
            self._take("]")
            return
        while True:
            if not self.sign():
                raise self.broken("the array does not end")
            yield
            if self._separated("]"):
                return

    def end(self) -> None:
        """Refuse whatever follows."""
        if self.sign():
            raise self.broken("something follows the end")

    def broken(self, reason: str) -> SourceError:
        """The error of a text that is no JSON from here on."""
        where = self._source.where(self.line)
        return SourceError(f"{where}: not valid JSON: {reason}", hint=self._hint)

    def _separated(self, last: str) -> bool:
        """Pass over the mark behind a value; whether it was the ``last`` one."""
        sign = self.sign()
        if sign not in (",", last) or not sign:
            found = f"{sign!r} stands" if sign else "the text ends"
            raise self.broken(f"{found} where ',' or {last!r} is wanted")
        self._take(sign)
        return sign == last

    def _take(self, wanted: str) -> None:
        if self.sign() != wanted:
            raise self.broken(f"{wanted!r} is missing")
        self._move(self._start + 1)
