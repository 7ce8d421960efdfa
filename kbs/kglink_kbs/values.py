"""Turns what stands in a file into text and numbers, or says what is wrong with it."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from kglink.errors import RecordError, SourceError
from kglink.sources import Problems

Item = TypeVar("Item")
Made = TypeVar("Made")

#: Neither a database nor a terminal is served by these; white space is no part of them.
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f\ud800-\udfff]")
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")
#: A character by its number; Python reads no number of thousands of digits.
_BY_NUMBER = re.compile(r"&#(?=[0-9])0*+([0-9]*+)")
_MOST_DIGITS = 8
#: The largest whole number that a database column holds.
MAX_COUNT = 2**63 - 1


class BadValue(Exception):  # noqa: N818 - a reason; the reader makes the RecordError of it
    """A value that a record cannot have; the reader of the record adds where it stands."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def at(self, where: str, hint: str = "") -> RecordError:
        """The error of the record that stands there; ``hint`` is given where it has none."""
        return RecordError(self.message, where=where, hint=self.hint or hint)


def good_ones(
    items: Iterable[tuple[str, Item]],
    make: Callable[[Item], Made | None],
    problems: Problems,
    *,
    hint: str = "",
    nothing: Callable[[], SourceError] | None = None,
) -> Iterator[Made]:
    """Apply ``make`` to items, each given with its place; report the bad ones.

    ``hint`` is for errors without one; ``nothing`` makes the error if no item was good or bad.
    """
    found = False
    for place, item in items:
        try:
            made = make(item)
        except BadValue as bad:
            problems.report(bad.at(place, hint))
        else:
            if made is not None:
                found = True
                yield made
    if not found and nothing and not problems.total:
        raise nothing()


def described(value: object) -> str:
    """How messages name a value that was found."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {_number_text(value)}"
        case str():
            return f"the text {shortened(value)}"
        case list():
            return "a list"
        case _:
            return "an object"


def shortened(text: str) -> str:
    """A text in quotes, cut where it is long."""
    return repr(text if len(text) <= 80 else text[:80] + "...")


def checked(text: str, what: str, unwanted: re.Pattern[str] = _CONTROLS) -> str:
    """``text``, unless it holds a control character or half of a surrogate pair."""
    if bad := unwanted.search(text):
        code = ord(bad[0])
        name = f"the control character U+{code:04X} {unicodedata.name(bad[0], '')}".rstrip()
        found = f"half of a surrogate pair (U+{code:04X})" if code >= 0xD800 else name
        hint = "Remove it from the file, or pass over such records with --on-error skip."
        raise BadValue(f"{what} holds {found}", hint)
    return text


def exact_text(value: object, what: str) -> str:
    """A document's text as it is; only what a database cannot hold is refused."""
    if not isinstance(value, str):
        raise BadValue(f"{what} is {described(value)}, not a text")
    return checked(value, what, _NOT_TEXT)


def plain_text(value: object, what: str) -> str:
    """Text or a number as text, stripped; null is the empty text."""
    if value is None:
        return ""
    if isinstance(value, str):  # what is printable, as most texts are, holds no control character
        return value.strip() if value.isprintable() else checked(value, what).strip()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number_text(value)
    hint = ""
    if isinstance(value, dict) and value:
        inner = next(iter(value))
        field = f"FIELD.{inner}" if inner.isprintable() else "FIELD.INNER"
        hint = f"A value inside it is named with a dot: --set {what}={field}"
    raise BadValue(f"{what} is {described(value)}, not a text", hint)


def one_line(value: object, what: str) -> str:
    """`plain_text` with every run of white space made one space."""
    if isinstance(value, str) and value.isprintable() and "  " not in value:
        return value.strip()  # as most texts are
    return " ".join(plain_text(value, what).split())


def key_text(value: object, what: str) -> str:
    """An id as text: whole numbers are taken, fractions are not (1.10 would become 1.1)."""
    if isinstance(value, float):
        if not value.is_integer():
            raise BadValue(
                f"{what} is {described(value)}, not a text or whole number",
                "Write ids as text, in quotes: as numbers, 1.10 and 1.1 are the same.",
            )
        value = int(value)
    key = plain_text(value, what)
    if not key.isprintable() and any(sign in key for sign in "\n\r\t"):
        raise BadValue(f"{what} holds a line break or a tab")
    return key


def type_text(value: object, what: str) -> str:
    """One type, or a list of them joined by commas."""
    if isinstance(value, list):
        return ", ".join(filter(None, (one_line(item, what) for item in value)))
    return one_line(value, what)


def finite_number(value: object, what: str) -> float:
    """A number, or a text that is one; null is 0."""
    if value is None or value == "":
        return 0.0
    number = _number(value)
    if not math.isfinite(number):
        raise BadValue(f"{what} is {described(value)}, not a finite number")
    return number


def _number(value: object) -> float:
    """A number, or a text that is one; NaN of anything else."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            return float(value)
    return math.nan


def whole_number(value: object, what: str) -> int:
    """A whole number from 0 on, or a float that is one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return value
    raise BadValue(f"{what} is {described(value)}, not a whole number from 0 on")


def offset_number(value: object, what: str) -> int:
    """A whole number, or a text of digits, as XML and some tools have it."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,12}", value.strip()):
        return int(value.strip())
    return whole_number(value, what)


def probability(value: object, what: str) -> float | None:
    """A number from 0 to 1, or a text that is one; None where there is none."""
    if value is None or value == "":
        return None
    number = _number(value)
    if not 0 <= number <= 1:
        shown = shortened(value) if isinstance(value, str) else described(value)
        raise BadValue(f"{what} {shown} is no number from 0 to 1")
    return number


def object_of(value: object, what: str) -> dict[str, Any]:
    """A JSON object; null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadValue(f"{what} is {described(value)}, not an object")
    return value


def list_of(value: object, what: str) -> list[Any]:
    """A JSON list; null is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadValue(f"{what} is {described(value)}, not a list")
    return value


def objects_of(fields: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of the list ``name``; none where there is no such list."""
    return [object_of(one, f"an item of {name}") for one in list_of(fields.get(name), name)]


def unescaped(text: str) -> str:
    """``text`` with its HTML character references replaced; U+FFFD for those that are none."""
    if "&" not in text:
        return text
    return html.unescape(_BY_NUMBER.sub(lambda found: f"&#{found[1][:_MOST_DIGITS] or 0}", text))


def listed(text: str) -> list[str]:
    """The parts of a list that is separated by commas."""
    return [part for piece in text.split(",") if (part := piece.strip())]


def text_list(value: object, separator: str, what: str) -> list[str]:
    """A list of texts, or one text that is split at ``separator`` (if any); blanks left out."""
    if isinstance(value, str):
        value = value.split(separator) if separator else [value]
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadValue(f"{what} is {described(value)}, not a list of texts")
    return [text for item in value if (text := one_line(item, what))]


def _number_text(number: float) -> str:
    """A number as text; Python refuses to write whole numbers of thousands of digits."""
    try:
        return str(number)
    except ValueError as error:
        raise BadValue("a number of more than 4,300 digits") from error
