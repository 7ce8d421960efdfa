"""The door for texts of others: what is shown of them is no command to a terminal or a reader.

`printable` is for names within a message, `printable_line` for a whole line, whose columns stay
where they are, `printable_json` for JSON, and `spreadsheet_cell` for tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TextIO

#: Characters that an example in a message has at most.
MOST_SHOWN = 80
#: Control characters of both sets, and marks that turn a line round.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# Every control character gets a visible stand-in of one cell: no data can move the cursor,
# change a colour or end a line, and offsets stay as they are.
_STAND_INS = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_STAND_INS |= dict.fromkeys(
    (*range(0x80, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD
)
_SURROGATE = re.compile("[\ud800-\udfff]")
#: With these a spreadsheet takes a cell for a formula, full-width forms included.
_FORMULA = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_BREAK = re.compile("[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
#: What a text file cannot hold: a NUL makes it binary to its readers.
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str, most: int = 0) -> str:
    """The text on one line without control characters; cut after ``most`` (0: whole)."""
    shown = " ".join(_CONTROLS.sub(" ", text).split())
    return f"{shown[:most]}..." if most and len(shown) > most else shown


def printable_line(text: str) -> str:
    """One line: nothing in it is a control, breaks the line or turns its direction."""
    return _SURROGATE.sub("\ufffd", text.translate(_STAND_INS))


def same_length_line(text: str) -> str:
    """``text`` on one line and encodable, each character at its place."""
    return writable(_BREAK.sub(" ", text))


def writable(text: str, instead: str = "\ufffd") -> str:
    """``text`` with a stand-in for each character that a text file cannot hold."""
    return _UNWRITABLE.sub(instead, text)


def printable_json(value: object, *, indent: int | None = None) -> str:
    """``value`` as JSON, in which what a terminal would obey is escaped.

    Halves of surrogate pairs become U+FFFD: two of them would be read back as one character.
    """
    text = _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False, indent=indent))
    return _ESCAPED_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write_list(items: Iterable[str], out: TextIO) -> None:
    """Write a list of JSON values, a line and a flush for each."""
    before = "["
    for item in items:
        out.write(f"{before}\n{item}")
        out.flush()
        before = ","
    out.write("[]\n" if before == "[" else "\n]\n")
    out.flush()


def spreadsheet_cell(text: str) -> str:
    """A text for a cell of a table: an apostrophe keeps it from being run as a formula."""
    return f"'{text}" if _FORMULA.match(text) else text
