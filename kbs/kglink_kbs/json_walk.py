"""Walks through a JSON text of any size, holding one value at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from kglink.errors import SourceError
from kglink.sources import Source
from kglink_kbs.json_window import JsonWindow, broken, next_value


class JsonWalk:
    """Stands at a place in a JSON text; `members` and `items` step into what begins there.

    Whoever steps through members or items takes (`value`) or passes over (`skip`) each of them
    before the next.
    """

    def __init__(self, source: Source, stream: BinaryIO, hint: str) -> None:
        self._source = source
        self._hint = hint
        self._window = JsonWindow(stream, source.label)
        self.sign()

    @property
    def line(self) -> int:
        """The number of the line."""
        return self._window.line

    def sign(self) -> str:
        """The sign with which the next value or mark begins; empty at the end."""
        return self._window.sign()

    def value(self) -> object:
        """The value that begins here, as a whole."""
        self.sign()
        return next_value(self._source, self._window, self._hint)

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

    def items(self) -> Iterator[None]:
        """Stops once before each item of the list that begins here."""
        self._take("[")
        if self.sign() == "]":
            self._take("]")
            return
        while True:
            self.sign()
            yield
            if self._separated("]"):
                return

    def end(self) -> None:
        """Refuse whatever follows."""
        if self.sign():
            raise self.broken("something follows the end")

    def broken(self, reason: str) -> SourceError:
        """The error of a text that is no JSON from here on."""
        return broken(self._source, self.line, reason, self._hint)

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
        self._window.move(self._window.start + 1)
