"""Wikitext as plain text with its links."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kglink_kbs.mediawiki.languages import link_trail
from kglink_kbs.mediawiki.markup import (
    ASIDE,
    OPAQUE,
    in_one_variant,
    literal,
    literal_back,
    without_braces,
    without_elements,
    written_out,
)
from kglink_kbs.mediawiki.site import Titles
from kglink_kbs.values import unescaped

#: Runs that never give back what they took: no input makes the search slower than linear.
_TARGET = r"[^\[\]|\n\x02-\x04]*+"
#: The section that a link leads to: "Quests#B82", but not "Jun&#39;you".
_SECTION = re.compile("(?<!&)#")
#: The text of a link; single brackets are part of it.
_LABEL = r"[^\[\]]*+(?:(?:\[(?!\[)|\](?!\]))[^\[\]]*+)*+"

_MARKUP = re.compile("[<{&'\\[\\]\n\t_|\x02-\x1f\xa0]|  |^ | $")
_TEMPLATE = re.compile(r"\{\{[^{}]*+\}\}")
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*+>")
_QUOTES = re.compile("'{2,}")
_MARK = re.compile("\x02[0-9]+\x04|\x03")
_EXTERNAL = re.compile(r"\[(?:[a-zA-Z]{2,8}:)?//[^\s\[\]]*+[ ]*+([^\[\]]*+)\]")
_CUT_BY_PIPE = re.compile(
    r"^:?(?:[^:|]*:)?(.*?)(?:\s?\([^()]*+\)|\s?（[^（）]*+）|,\s.*)?$", re.DOTALL
)

#: An alias longer than this is a sentence, not a name.
MOST_ANCHOR = 200


@functools.cache
def link_pattern(language: str) -> re.Pattern[str]:
    """Target, text with its pipe (if any) and trail of a link that holds no other link."""
    return re.compile(rf"\[\[({_TARGET})(\|{_LABEL})?\]\]({link_trail(language)})")


def find_links(text: str, titles: Titles, pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """The full title and the shown text of every link to an article in ``text``.

    The shown text is empty where it is too long for a name, and where it names a section.
    It is `prepared`: what is no wikitext is taken out of it.
    """
    for raw, label, trail in pattern.findall(text):
        if title := titles.target(raw).title:
            shown = shown_text(raw, label, trail)
            is_name = len(shown) <= MOST_ANCHOR and not _SECTION.search(raw)
            yield title, shown if is_name else ""


def shown_text(raw: str, label: str, trail: str) -> str:
    """What a reader sees of a link, on one line and without markup; ``label`` has its pipe."""
    text = (label[1:] or pipe_trick(raw) if label else raw.lstrip(": ")) + trail
    return plain_line(text) if _MARKUP.search(text) else text


def pipe_trick(raw: str) -> str:
    """What MediaWiki shows for ``[[Help:Paris (France)|]]`` and its like: Paris."""
    found = _CUT_BY_PIPE.match(raw[:MOST_ANCHOR])
    return found[1] if found and found[1] else raw


def plain_line(text: str) -> str:
    """A short piece of wikitext as one line of plain text."""
    if "{" in text:
        text = _TEMPLATE.sub("", text)
    if "<" in text:
        text = _TAG.sub("", _BREAK.sub(" ", text))
    if "\x03" in text:
        text = _MARK.sub("", text)
    if "[" in text:
        text = _EXTERNAL.sub(r"\1", text)
    text = _QUOTES.sub("", text)
    return " ".join(literal_back(unescaped(text)).split())


def is_name(anchor: str) -> bool:
    """Whether the text of a link may be an alias: no section, no sentence, no markup left."""
    return 0 < len(anchor) <= MOST_ANCHOR and not _NO_NAME.search(anchor)


#: "Page#Section" is the name of no page, "C#" and "#MeToo" are.
_NO_NAME = re.compile(r"[{}\x00-\x1f]|\S#\S|\[\[|\]\]")


#: Links in captions in links: deeper nesting than this no page of people has.
_DEPTH = 4

_LEFT_LINK = re.compile(r"\[\[(?:[^\[\]|\n]*+\|)?|\]\]")
_LEFT_HIDDEN = re.compile(r"\[\[[ :]*+([^\[\]|\n:]{1,40}:[^\[\]|\n]*+)\|[^\n]*+")
_EXTERNAL_IN_TEXT = re.compile(
    r"\[(?:(?:https?|ftps?|ircs?|news|gopher|git|svn|sftp):|mailto:|(?=//))[^\s\[\]<>\"]++"
    r"[ \t]*+([^\[\]\n]*+)\]",
    re.IGNORECASE,
)
_BREAK = re.compile(
    r"<(?:br|hr|/?(?:p|div|li|ul|ol|dl|dd|dt|blockquote|center|h[1-6]))(?![\w-])[^<>]*+>",
    re.IGNORECASE,
)
_TAG_IN_TEXT = re.compile(r"</?[a-zA-Z][^<>]*+>")
_HEADING = re.compile(r"\n[ \t]*+=[^\n]*?=[ \t]*+(?=\n|$)")
_LINE_START = re.compile(r"\n(?:[*#:;]++[ \t]*+|-{4,}+|\|[^\n]*+|!(?=[\s!])[^\n]*+|\{\|[^\n]*+)")
_SIGN_IN_LINE = re.compile(r"[\[\]{}<>&'_]")
_MAGIC = re.compile(r"__[^\W_]{2,24}(?:_[^\W_]{1,24}){0,3}__")
#: Marks that show nothing, and spaces of other widths.
_ODD_SIGNS = {
    **dict.fromkeys("\u007f\u00ad\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufeff", ""),
    **dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008", " "),
    **dict.fromkeys("\u2009\u200a\u202f\u205f\u3000", " "),
    **dict.fromkeys("\u0085\u2028\u2029", "\n"),
}
_ODD = re.compile(f"[{''.join(_ODD_SIGNS)}]")
_LINES = re.compile(r" ?\n\s*+")
_ODD_PARENTHESIS = re.compile(r"\((?:[\s,;:/–—·-]++\)?|\))")
_NESTED_PARENTHESES = 2
_WIDE_PARENTHESES = re.compile(r"（[\s,;、，；]*+）")
_LINK = re.compile("\x02([0-9]++)\x04([^\x02-\x04]*+)\x03")
_MARKS = re.compile("[\x02-\x04]")
#: White space that a template has left behind.
_TIGHT = ((" \n", "\n"), (" ,", ","), (" )", ")"), (" . ", ". "), (" .\n", ".\n"))


class KeptLink(NamedTuple):
    """A link in a clean text: ``text[start:end]`` is what it shows."""

    start: int
    end: int
    title: str


class CleanText(NamedTuple):
    """Plain text and the links in it, in reading order."""

    text: str
    links: tuple[KeptLink, ...] = ()


def prepared(wikitext: str) -> str:
    """``wikitext`` without comments, literal stretches protected: what links are read from."""
    return in_one_variant(without_elements(wikitext, OPAQUE))


def clean_prepared(text: str, titles: Titles, language: str = "") -> CleanText:
    """The prose of a `prepared` page: no templates, tables, references, captions or HTML."""
    text, targets = _mark_links(_without_brackets(text), titles, link_pattern(language))
    return _with_places(literal_back(_plain(text)), targets)


def prose(text: str, titles: Titles, language: str = "") -> str:
    """The text alone of `clean_prepared`, for less.

    The two are equal but where a parenthesis or a bracket begins outside a link and ends in it, as
    in ``([[)]]``: only here is it seen as one.
    """
    pattern = link_pattern(language)

    def shown(found: re.Match[str]) -> str:
        raw, label, trail = found.groups("")
        if titles.target(raw).kind == "hidden":
            return trail
        return _safe(shown_text(raw, label, trail))

    return literal_back(_plain(_each_link(_without_brackets(text), titles, pattern, shown)))


def _without_brackets(text: str) -> str:
    """``text`` without references, templates and tables."""
    text = without_elements(text, ASIDE)
    if "{" in text or "<" in text:
        text = without_braces(written_out(text))
    return text


def _mark_links(text: str, titles: Titles, pattern: re.Pattern[str]) -> tuple[str, list[str]]:
    """The text with its links marked, innermost first, and the titles by their numbers."""
    targets: list[str] = []

    def mark(found: re.Match[str]) -> str:
        raw, label, trail = found.groups("")
        kind, title = titles.target(raw)
        if kind == "hidden":
            return trail
        if "\x02" in label:  # a link in a link: the inner one counts
            return label[1:] + trail
        shown = _safe(shown_text(raw, label, trail))
        if not shown or kind != "article" or _SECTION.search(raw):
            return shown
        targets.append(title)
        return f"\x02{len(targets) - 1}\x04{shown}\x03"

    return _each_link(text, titles, pattern, mark), targets


def _each_link(
    text: str, titles: Titles, pattern: re.Pattern[str], shown: Callable[[re.Match[str]], str]
) -> str:
    """``text`` with ``shown`` for each link, innermost first; what is left open goes."""
    for _ in range(_DEPTH):
        if "[[" not in text:
            return text
        text, count = pattern.subn(shown, text)
        if not count:
            break

    def unclosed(found: re.Match[str]) -> str:
        return "" if titles.target(found[1]).kind == "hidden" else found[0]

    return _LEFT_LINK.sub("", _LEFT_HIDDEN.sub(unclosed, text))


def _safe(shown: str) -> str:
    """The text of a link, finished: what looks like markup in it was decoded from entities."""
    return literal(shown) if _SIGN_IN_LINE.search(shown) else shown


def _plain(text: str) -> str:
    """Everything but links: external links, HTML, headings, lists, quotes, entities, spaces."""
    if "[" in text:
        text = _EXTERNAL_IN_TEXT.sub(r"\1", text)
    if "<" in text:
        text = _TAG_IN_TEXT.sub("", _BREAK.sub("\n", text))
    text = _LINE_START.sub("\n", _HEADING.sub("", f"\n{text}"))
    if "''" in text:
        # A run of five is bold and italics, of four an apostrophe and bold.
        text = _QUOTES.sub(lambda run: "'" * (max(0, len(run[0]) - 5) or len(run[0]) == 4), text)
    if "__" in text:
        text = _MAGIC.sub(lambda word: "" if word[0].isupper() else word[0], text)
    return _tidy(unescaped(text))


def _tidy(text: str) -> str:
    """One space between words, one line for a paragraph, no empty parentheses."""
    if not text.isascii():
        text = _ODD.sub(lambda sign: _ODD_SIGNS[sign[0]], text)
    text = text.replace("\t", " ").replace("\r", " ") + "\n"
    for _ in range(_NESTED_PARENTHESES if "(" in text else 0):
        text = _ODD_PARENTHESIS.sub(_parenthesis, text)
    if "（" in text:
        text = _WIDE_PARENTHESES.sub("", text)
    while "  " in text:
        text = text.replace("  ", " ")
    for spaced, tight in _TIGHT:
        text = text.replace(spaced, tight)
    return _LINES.sub("\n", text).strip()


def _parenthesis(found: re.Match[str]) -> str:
    """What is left of one that begins with nothing: templates stood there."""
    shown, before = found[0], found.string[max(0, found.start() - 1) : found.start()]
    if shown == "()":  # as in main(), where no space is before it
        return shown if before.isalnum() or before == "_" else ""
    return "" if shown.endswith(")") else "(" + shown[1:].lstrip(" ,;:\n")


def _with_places(text: str, targets: list[str]) -> CleanText:
    """Read the marks off."""
    kept: list[str] = []
    links: list[KeptLink] = []
    at = length = 0
    for found in _LINK.finditer(text):
        before = _MARKS.sub("", text[at : found.start()])
        number, shown = found.groups()
        start = length + len(before)
        length = start + len(shown)
        kept += (before, shown)
        at = found.end()
        if name := shown.strip():
            first = start + shown.index(name)
            links.append(KeptLink(first, first + len(name), targets[int(number)]))
    kept.append(_MARKS.sub("", text[at:]))
    return CleanText("".join(kept), tuple(links))
