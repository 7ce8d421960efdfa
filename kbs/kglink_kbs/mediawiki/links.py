"""Finds the links of a page: one regular expression over its text."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterator

from kglink_kbs.mediawiki.languages import link_trail
from kglink_kbs.mediawiki.regions import literal_back
from kglink_kbs.mediawiki.titles import Titles

#: Runs that never give back what they took: no input makes the search slower than linear.
_TARGET = r"[^\[\]|\n\x02-\x04]*+"
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

    `without_opaque` has taken out of it what is no wikitext.
    """
    for raw, label, trail in pattern.findall(text):
        title = titles.article(raw)
        if title:
            yield title, shown_text(raw, label, trail)


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
        text = _TAG.sub("", text)
    if "\x03" in text:
        text = _MARK.sub("", text)
    if "[" in text:
        text = _EXTERNAL.sub(r"\1", text)
    text = _QUOTES.sub("", text)
    if "&" in text:
        text = html.unescape(text)
    return " ".join(literal_back(text).split())


def is_name(anchor: str) -> bool:
    """Whether the text of a link may be an alias: no section, no sentence, no markup left."""
    return 0 < len(anchor) <= MOST_ANCHOR and not _NO_NAME.search(anchor)


_NO_NAME = re.compile(r"[#{}\x00-\x1f]|\[\[|\]\]")
