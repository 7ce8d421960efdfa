"""Making any text safe to show: control characters, surrogates, JSON in files and pages."""

from __future__ import annotations

import json
import re
from typing import TextIO

from kglink.text.printable import printable_line

_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_BREAKS = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_WHITE_SPACE = re.compile(r"\s+")


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
