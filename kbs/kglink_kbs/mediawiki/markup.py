"""Takes out of wikitext what is no text of its own: literal regions, templates, tables."""

from __future__ import annotations

import re
from typing import NamedTuple

from kglink_kbs.values import unescaped

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


def literal(text: str) -> str:
    """``text`` with its signs hidden: no step of the cleaner sees wikitext in it."""
    return _SIGN.sub(lambda sign: _HIDE[sign[0]], text)


def literal_back(text: str) -> str:
    """``text`` with the signs of its literal stretches as they were; of the same length."""
    return _HIDDEN.sub(lambda hidden: _SHOW[hidden[0]], text)


def in_one_variant(text: str) -> str:
    """``text`` in the first of its variants: ``-{zh-hans:计算机; zh-hant:電腦}-`` shows 计算机."""
    return _VARIANTS.sub(_first_variant, text) if "-{" in text else text


def _first_variant(found: re.Match[str]) -> str:
    flags, rules = found[1] or "", found[2]
    if not _HIDING_FLAGS.isdisjoint(flags):
        return ""
    variant = _VARIANT.match(rules)
    return variant[1].strip() if variant else rules


#: What Wikipedias in several scripts write for their readers to choose from.
_VARIANTS = re.compile(r"-\{(?!\{)(?:([A-Z; -]{0,8})\|)?([^{}]*)\}-")
_VARIANT = re.compile(r"\s*[a-z]{2,3}(?:-[a-z]{2,8})*\s*:\s*([^;]*)(?:;|$)", re.S)
#: A rule for the rest of the page, its title, or one that is taken back.
_HIDING_FLAGS = frozenset("HT-")


def without_elements(text: str, dropped: frozenset[str]) -> str:
    """``text`` without comments and some elements; ``<nowiki>`` becomes literal text."""
    if "<" not in text:
        return text
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
        unclosed.add(name)  # it ends with its line; literal text does at once
        end = found.end() if name == _LITERAL else text.find("\n", found.end())
        return (len(text) if end < 0 else end), ""
    if name == _LITERAL:
        return close.end(), literal(unescaped(text[found.end() : close.start()]))
    return close.end(), ""


# Every alternative begins with a literal, so that the search runs at the speed of C.
_TOKEN = re.compile(
    r"\{\{++|\}\}++|\{\||\|\}(?!\})|<table(?![\w-])[^<>]*+>|</table[^\S<>]*+>", re.IGNORECASE
)
#: How far from the margin a table may begin.
_INDENT = 40
_HEADING = re.compile(r"\n=")
_BLANK = re.compile(r"\n[ \t]*+\n")


class _Open(NamedTuple):
    kind: str
    start: int
    braces: int


def without_braces(text: str) -> str:
    """``text`` without ``{{...}}``, ``{{{...}}}``, ``{|...|}`` and HTML tables.

    What is never closed goes as far as it can be guessed: a template with its paragraph, a table
    up to the next heading.
    """
    regions = brace_regions(text)
    if not regions:
        return text
    kept, at = [], 0
    for start, end in regions:
        if start > at:
            kept.append(text[at:start])
        at = max(at, end)
    kept.append(text[at:])
    return "".join(kept)


class _Stack:
    """The brackets that are open, and the stretches that are done."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[_Open] = []
        self._count = {"{": 0, "table": 0, "html": 0}
        self._done: list[tuple[int, int]] = []

    def push(self, kind: str, start: int, braces: int = 0) -> None:
        """A bracket opens."""
        self._open.append(_Open(kind, start, braces))
        self._count[kind] += 1

    def close_braces(self, start: int, end: int) -> None:
        """A run of ``}}`` closes as many templates and parameters as it can."""
        left = end - start
        while left >= 2 and self._count["{"]:
            # MediaWiki pairs braces before it looks at tables: an open one inside goes too.
            while (top := self._pop()).kind != "{":
                pass
            taken = 3 if min(top.braces, left) >= 3 else 2
            left -= taken
            rest = top.braces - taken
            self._finish(top.start + rest, end - left)
            if rest >= 2:
                self.push("{", top.start, rest)

    def close_table(self, kind: str, end: int) -> None:
        """A table ends, unless a template that it does not hold has been opened in it."""
        if self._open and self._open[-1].kind == kind:
            self._finish(self._pop().start, end)

    def regions(self) -> list[tuple[int, int]]:
        """All stretches to take out, in their order; what is open ends at a guess."""
        unclosed, end = [], 0
        for kind, start, _ in self._open:
            if start >= end:
                found = (_BLANK if kind == "{" else _HEADING).search(self._text, start + 1)
                end = found.start() if found else len(self._text)
                unclosed.append((start, end))
        return sorted(self._done + unclosed)

    def _pop(self) -> _Open:
        top = self._open.pop()
        self._count[top.kind] -= 1
        return top

    def _finish(self, start: int, end: int) -> None:
        while self._done and self._done[-1][0] >= start:  # what it holds goes with it
            self._done.pop()
        self._done.append((start, end))


def brace_regions(text: str) -> list[tuple[int, int]]:
    """The outermost templates and tables of a text: where each begins and ends, in order."""
    stack = _Stack(text)
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        match text[start : start + 2]:
            case "{{":
                stack.push("{", start, end - start)
            case "}}":
                stack.close_braces(start, end)
            case "{|":
                if _begins_line(text, start, " \t:*#"):
                    stack.push("table", start)
            case "|}":
                if _begins_line(text, start, " \t"):
                    stack.close_table("table", end)
            case "</":
                stack.close_table("html", end)
            case _:
                stack.push("html", start)
    return stack.regions()


def _begins_line(text: str, start: int, indent: str) -> bool:
    """Whether nothing but ``indent`` stands before ``start`` in its line."""
    if start == 0 or text[start - 1] == "\n":
        return True
    if text[start - 1] not in indent:
        return False
    margin = text.rfind("\n", max(0, start - _INDENT), start)
    if margin < 0 and start > _INDENT:
        return False
    return not text[margin + 1 : start].strip(indent)


#: Where the text of a template stands among its unnamed values, from 1.
_SHOWN = {
    **dict.fromkeys(("abbr", "angbr", "as of", "big", "circa", "em", "gloss", "ill", "lien"), 1),
    **dict.fromkeys(("interlanguage link", "mono", "nihongo", "nobold", "nobr", "nowrap"), 1),
    **dict.fromkeys(("small", "smaller", "strong", "sub", "sup", "title", "tooltip", "tq"), 1),
    **dict.fromkeys(("unité", "val"), 1),
    **dict.fromkeys(("lang", "langue", "script", "transl", "transliteration"), 2),
}
_WORDS = {"as of": "as of ", "circa": "c. ", "unité": ""}
_MEASURES = frozenset({"convert", "cvt"})
_ALL = "|".join(sorted((*_SHOWN, *_MEASURES, "lang-[a-z]{2,3}"), key=len, reverse=True))
_CALL = re.compile(rf"\{{\{{\s*+({_ALL})\s*+\|([^{{}}]*+)\}}\}}", re.IGNORECASE)
#: What stands in a link, up to its end: bars in it divide no values.
_IN_LINK = re.compile(r"(?<![^\[\]])[^\[\]]++(?=\]\])")
_NAMED = re.compile(r"\s*+[A-Za-z][\w -]*+=")


def written_out(text: str) -> str:
    """``text`` with templates such as ``{{nowrap|...}}`` and ``{{convert|5|km}}`` written out."""
    return _CALL.sub(_content, text)


def _content(call: re.Match[str]) -> str:
    name = call[1].lower()
    linked = _IN_LINK.sub(lambda found: found[0].replace("|", "\0"), call[2])
    values = [
        value.replace("\0", "|").strip() for value in linked.split("|") if not _NAMED.match(value)
    ]
    if name in _MEASURES:
        if len(values) >= 4 and values[1] in {"to", "and", "or", "-", "–", "by", "x"}:
            return " ".join(values[:4])
        return " ".join(values[:2])
    place = _SHOWN.get(name, 1)
    shown = values[place - 1] if len(values) >= place else ""
    return _WORDS.get(name, "") + shown if shown else ""
