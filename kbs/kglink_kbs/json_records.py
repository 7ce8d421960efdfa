"""Streams the objects of a JSON source: one object per line, or one array of objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from kglink.errors import RecordError, SourceError
from kglink.sources import Problems, Source, check_text
from kglink_kbs.json_window import JsonWindow, broken, next_value
from kglink_kbs.values import described

_BOM = b"\xef\xbb\xbf"


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
    found, skipped = False, problems.total
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
                hint=_ONE_PER_LINE if text.strip() in "{[" else "",
            )
        except (ValueError, RecursionError) as error:  # numbers and nestings without end
            value = RecordError(f"not usable JSON: {error}", where=source.where(number))
        yield number, value


_ONE_PER_LINE = "Write one object per line; jq -c . FILE does that."


def _array_items(source: Source) -> Iterator[tuple[int, object]]:
    check_text(source.label, source.head.head)
    with source.open() as stream:
        window = JsonWindow(stream, source.label)
        window.sign()
        window.move(window.start + 1)
        if window.sign() == "]":
            window.move(window.start + 1)
        else:
            yield from _items(source, window)
        if window.sign():
            raise _broken(source, window.line, "something follows the array")


def _items(source: Source, window: JsonWindow) -> Iterator[tuple[int, object]]:
    while True:
        if not window.sign():
            raise _broken(source, window.line, "the array does not end")
        line = window.line
        yield line, next_value(source, window, _HINT)
        sign = window.sign()
        if sign not in (",", "]"):
            raise _broken(source, window.line, "',' or ']' is missing after an item")
        window.move(window.start + 1)
        if sign == "]":
            return


def _broken(source: Source, line: int, reason: str) -> SourceError:
    return broken(source, line, reason, _HINT)


_HINT = (
    "An array cannot be read past its first fault; with one object per line "
    "(jq -c '.[]' FILE) such records can be skipped."
)
