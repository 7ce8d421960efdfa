"""Values as notebooks show them, in the pieces that the web pages of kglink are made of too.

All text of others is escaped. Colours are readable on white and on black, since a notebook does
not say which it has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isfinite
from typing import Any, NamedTuple, TypeVar

#: Okabe and Ito's, with a contrast of 3:1 to white and to black.
COLOURS = ("#0072b2", "#c07a00", "#008f68", "#d55e00", "#b95f92", "#2b8fc9", "#8a7f00")
NIL_COLOUR = "#767c85"
#: They cycle at another length than the colours: 28 KBs differ in one or the other.
UNDERLINES = ("solid", "double", "dashed", "wavy")
#: How much of a text, and how many items of a list, a notebook shows.
MOST_CHARACTERS, MOST_ITEMS, MOST_ROWS = 20_000, 12, 200

# Control characters get a visible stand-in, but for those that break lines; so do the two that
# force a direction on all that follows, which can make a name read as another one.
_PAGE = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"} | {0x7F: 0x2421}
_PAGE |= dict.fromkeys((*range(0x80, 0xA0), 0x202D, 0x202E), 0xFFFD)
_SURROGATE = re.compile("[\ud800-\udfff]")
_WEB_ADDRESS = re.compile(r"https?://[^\s\x00-\x1f\x7f-\x9f]+", re.IGNORECASE)


# ---------------------------------------------------------------------------------------- text
def for_page(text: str) -> str:
    """``text`` for a web page: tabs and line breaks stay, other control characters show."""
    return _SURROGATE.sub("\ufffd", text.translate(_PAGE))


def escaped(text: str) -> str:
    """Any text as HTML, in elements and in attributes."""
    return escape(for_page(text), quote=True)


def web_address(url: str) -> str | None:
    """``url`` if a click on it can only open a web page, else None."""
    return url if _WEB_ADDRESS.fullmatch(url) else None


def percent(value: float) -> str:
    """A probability in percent."""
    return f"{value:.0%}" if isfinite(value) else "unknown"


class Html(str):
    """A text that is HTML already."""

    __slots__ = ()


def linked_name(name: str, url: str) -> Html:
    """A name, which leads to a web page if that is its address."""
    address = web_address(url)
    if not address:
        return Html(escaped(name))
    return Html(f'<a href="{escaped(address)}" rel="noopener noreferrer">{escaped(name)}</a>')


# --------------------------------------------------------------------------------- marked text
P = TypeVar("P", bound=Any)


def overlapping(places: Iterable[P]) -> list[list[P]]:
    """Places (``start``, ``end``) in groups: a first one, and those that begin inside of it."""
    groups: list[list[P]] = []
    for place in sorted(places, key=lambda one: (one.start, -one.end)):
        if groups and place.start < groups[-1][0].end:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


class Mark(NamedTuple):
    """A place to be marked; of no KB: nothing is known there."""

    start: int
    end: int
    kb: str
    title: str
    url: str = ""


def marked_text(text: str, marks: Sequence[Mark], kbs: Iterable[str]) -> str:
    """A text with marks in the colours of their KBs, and below it which colour is whose.

    What begins inside a mark stands behind it, in small.
    """
    names = dict.fromkeys([*kbs, *(one.kb for one in marks if one.kb)])
    number = {kb: at for at, kb in enumerate(names)}

    def mark(words: str, kb: str, title: str = "", url: str = "") -> str:
        colour, line, tint = NIL_COLOUR, "dotted", ""
        if kb:
            colour = COLOURS[number[kb] % len(COLOURS)]
            line, tint = UNDERLINES[number[kb] % len(UNDERLINES)], f"background:{colour}2b;"
        style = f"color:inherit;{tint}text-decoration:underline {line} {colour} 2px"
        address = web_address(url)
        opens = f'a href="{escaped(address)}" rel="noopener noreferrer"' if address else "span"
        title = f' title="{escaped(title)}"' if title else ""
        return f'<{opens}{title} style="{style}">{escaped(words)}</{opens.split(maxsplit=1)[0]}>'

    parts, position = [], 0
    for first, *inner in overlapping(marks):
        if first.end > MOST_CHARACTERS:
            break
        parts += [escaped(text[position : first.start])]
        parts += [mark(text[first.start : first.end], *first[2:])]
        parts += [f"<small> {mark(text[one.start : one.end], *one[2:])}</small>" for one in inner]
        position = first.end
    end = max(position, MOST_CHARACTERS)
    left = f" … {len(text) - end:,} more characters" if len(text) > end else ""
    parts += [escaped(text[position:end]), left]
    counts = Counter(one.kb for one in marks)
    legend = " · ".join(
        f"{mark(kb or 'NIL', kb)} {counts[kb]}" for kb in (*names, "") if counts[kb]
    )
    body = f'<div dir="auto" style="white-space:pre-wrap;line-height:1.7">{"".join(parts)}</div>'
    return f'{body}<div style="opacity:.8;font-size:.85em">{legend or "no mentions"}</div>'


# -------------------------------------------------------------------------------------- tables
def html_of(value: object) -> str:
    """A value of JSON: objects and lists of objects as tables, in which nothing empty stands."""
    if isinstance(value, Html):
        return value
    if isinstance(value, Mapping):
        rows = [(Html(f"<b>{escaped(str(key))}</b>"), one) for key, one in value.items()]
        return table((), [row for row in rows if not _is_empty(row[1])])
    if isinstance(value, list | tuple):
        if value and all(isinstance(one, Mapping) for one in value):
            names = dict.fromkeys(name for one in value for name in one)
            columns = [name for name in names if not all(_is_empty(one.get(name)) for one in value)]
            return table(columns, [[one.get(name) for name in columns] for one in value])
        more = f" and {len(value) - MOST_ITEMS:,} more" if len(value) > MOST_ITEMS else ""
        return ", ".join(map(html_of, value[:MOST_ITEMS])) + more
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else escaped(str(value))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of values, cut after many rows."""
    left = 'style="text-align:left"'  # notebooks put cells to the right
    head = "".join(f"<th {left}>{escaped(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td {left}>{html_of(one)}</td>' for one in row)}</tr>"
        for row in rows[:MOST_ROWS]
    )
    more = f"<p>and {len(rows) - MOST_ROWS:,} more</p>" if len(rows) > MOST_ROWS else ""
    head = f"<thead><tr>{head}</tr></thead>" if columns else ""
    return f"<table>{head}<tbody>{body}</tbody></table>{more}"


def _is_empty(value: object) -> bool:
    return value is None or value is False or (not isinstance(value, int | float) and not value)


class Shown:
    """A value that a notebook shows as the table of its JSON."""

    __slots__ = ()

    def as_json(self) -> Mapping[str, object]:
        """A plain dictionary."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_of(self.as_json())


T = TypeVar("T")


class ShownList(list[T]):
    """A list that a notebook shows as one table, or as what it shows of each value."""

    def _repr_html_(self) -> str:
        if all(isinstance(one, Shown) for one in self):
            return html_of([one.as_json() for one in self if isinstance(one, Shown)])
        return "".join(getattr(one, "_repr_html_", lambda: "")() for one in self)
