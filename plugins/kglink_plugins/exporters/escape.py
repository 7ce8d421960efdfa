"""Making any text safe to show: control characters, surrogates, JSON in files and pages, links."""

from __future__ import annotations

import json
import re
from typing import TextIO

from kglink.text.printable import printable_line

# Every control character gets a visible stand-in of one cell: no data can move the cursor,
# change a colour or end a line, and offsets stay as they are.
_CONTROLS = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_CONTROLS |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_BREAKS = {ord(char): None for char in "\t\n\r"}
_OVERRIDES = dict.fromkeys((0x202D, 0x202E), 0xFFFD)
_PAGE = {code: to for code, to in _CONTROLS.items() if code not in _BREAKS} | _OVERRIDES

_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_BREAKS = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_WHITE_SPACE = re.compile(r"\s+")
_WEB_ADDRESS = re.compile(r"https?://[^\s\x00-\x1f\x7f-\x9f]+", re.IGNORECASE)


def for_page(text: str) -> str:
    """``text`` for a web page: tabs and line breaks stay, other control characters show.

    So do the two characters that force a direction on all that follows: they can make a name
    read as another one.
    """
    return _SURROGATE.sub("\ufffd", text.translate(_PAGE))


def one_line(text: str) -> str:
    """``text`` for a table cell: every run of white space becomes one space."""
    return printable_line(_WHITE_SPACE.sub(" ", text).strip())


def terminal_lines(text: str) -> list[str]:
    """The lines of ``text`` for a terminal; a tab becomes four spaces."""
    return [printable_line(line.replace("\t", "    ")) for line in _LINE_BREAKS.split(text)]


def encodable(text: str, out: TextIO) -> str:
    """``text`` with a question mark for whatever the encoding of ``out`` cannot hold."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def web_address(url: str) -> str | None:
    """``url`` if a click on it can only open a web page, else None."""
    return url if _WEB_ADDRESS.fullmatch(url) else None


def json_text(value: object) -> str:
    """``value`` as JSON on one line, for every reader of lines and every UTF-8 writer.

    Control characters, marks that turn the direction and Unicode line breaks are written as
    escapes: printed on a terminal, the line does nothing. Each half of a surrogate pair becomes
    U+FFFD: two that stand side by side would be read back as one character, which moves all
    offsets behind them, and a mention may hold one of them alone.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text = _SURROGATE.sub("\ufffd", text)
    return _ESCAPED_IN_JSON.sub(lambda match: _escape(match[0]), text)


def page_json(value: object) -> str:
    """``value`` as JSON that no HTML parser can take for a tag, a comment or an entity."""
    return re.sub("[<>&]", lambda match: _escape(match[0]), json_text(value))


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}"
