"""Takes templates, parameters and tables out of wikitext, in one pass over their brackets."""

from __future__ import annotations

import re
from typing import NamedTuple

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
    regions = _regions(text)
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
                end = self._guessed_end(kind, start)
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

    def _guessed_end(self, kind: str, start: int) -> int:
        found = (_BLANK if kind == "{" else _HEADING).search(self._text, start + 1)
        return found.start() if found else len(self._text)


def _regions(text: str) -> list[tuple[int, int]]:
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
