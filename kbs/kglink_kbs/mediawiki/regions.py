"""Stretches of a page that are no wikitext: comments, literal text, formulas, code, references.

Everything here goes through the text once, whatever is left open in it.
"""

from __future__ import annotations

import html
import re

#: Elements whose content is no wikitext and no prose.
OPAQUE = frozenset(
    {
        *("ce", "categorytree", "chem", "css", "gallery", "graph", "hiero", "imagemap", "inputbox"),
        *("mapframe", "maplink", "math", "pre", "score", "script", "section", "source", "style"),
        *("syntaxhighlight", "templatedata", "templatestyles", "timeline"),
    }
)
#: Elements whose links count, but which are no part of the running text.
ASIDE = frozenset({"ref", "references", "indicator"})
_LITERAL = "nowiki"

_NAMES = "|".join(sorted(OPAQUE | ASIDE | {_LITERAL}, key=len, reverse=True))
_OPEN = re.compile(rf"<!--|<({_NAMES})(?![\w-])([^<>]*+)>", re.IGNORECASE)
_CLOSE = {
    name: re.compile(rf"</{name}[^\S<>]*+>", re.IGNORECASE) for name in (*OPAQUE, *ASIDE, _LITERAL)
}

# Signs that mean something in wikitext stand as control characters, which XML cannot hold, while
# their literal text goes through the cleaner. None is white space to Python, as \x1c to \x1f are.
_SIGNS = "[]{}|'<>&*#:;=_-"
_HIDE = dict(zip(_SIGNS, map(chr, (*range(0x0E, 0x1C), 0x05, 0x06)), strict=True))
_SHOW = {hidden: sign for sign, hidden in _HIDE.items()}
_SIGN = re.compile(f"[{re.escape(_SIGNS)}]")
_HIDDEN = re.compile("[\x05\x06\x0e-\x1b]")
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


def without_controls(text: str) -> str:
    """``text`` without the control characters that the cleaner uses as marks."""
    return text if text.isprintable() else _NOT_IN_XML.sub("", text)


def literal(text: str) -> str:
    """``text`` with its signs hidden: no step of the cleaner sees wikitext in it."""
    return _SIGN.sub(lambda sign: _HIDE[sign[0]], text)


def literal_back(text: str) -> str:
    """``text`` with the signs of its literal stretches as they were; of the same length."""
    return _HIDDEN.sub(lambda hidden: _SHOW[hidden[0]], text)


def without_opaque(text: str) -> str:
    """``text`` without comments and what is no wikitext; ``<nowiki>`` becomes literal text."""
    return _without(text, OPAQUE) if "<" in text else text


def without_asides(text: str) -> str:
    """``text`` without references."""
    return _without(text, ASIDE) if "<" in text else text


def _without(text: str, dropped: frozenset[str]) -> str:
    kept: list[str] = []
    unclosed: set[str] = set()
    at = start = 0
    while found := _OPEN.search(text, at):
        name = (found[1] or "").lower()
        end, shown = _region(text, found, name, dropped, unclosed)
        at = end
        if shown is not None:
            kept += (text[start : found.start()], shown)
            start = end
    if not kept:
        return text
    kept.append(text[start:])
    return "".join(kept)


def _region(
    text: str, found: re.Match[str], name: str, dropped: frozenset[str], unclosed: set[str]
) -> tuple[int, str | None]:
    """Where a stretch ends, and what to show for it (None: itself)."""
    if not name:
        end = text.find("-->", found.end())
        return (len(text) if end < 0 else end + 3), ""
    if name not in dropped and name != _LITERAL:
        return found.end(), None
    if found[2].endswith("/"):
        return found.end(), ""
    # A name that is not closed once is not closed later either: no second search to the end.
    close = None if name in unclosed else _CLOSE[name].search(text, found.end())
    if close is None:
        unclosed.add(name)
        return _unclosed_end(text, found.end(), name), ""
    if name == _LITERAL:
        return close.end(), literal(html.unescape(text[found.end() : close.start()]))
    return close.end(), ""


def _unclosed_end(text: str, at: int, name: str) -> int:
    """Where an element that is never closed ends: with its line; literal text does at once."""
    if name == _LITERAL:
        return at
    end = text.find("\n", at)
    return len(text) if end < 0 else end
