"""What a page is: an article, a redirect, a list, a disambiguation page, a category."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from kglink_kbs.mediawiki.languages import (
    CATEGORY,
    DISAMBIGUATION_TEMPLATES,
    DISAMBIGUATION_TITLES,
    INFOBOX,
    INFOBOX_TYPES,
    LIST_TITLES,
    REDIRECT_WORDS,
    SHORT_DESCRIPTION,
)
from kglink_kbs.mediawiki.links import plain_line

PageKind = Literal["article", "disambiguation", "list", "category"]

_REDIRECT = re.compile(r"\s*+#\s*+([^\s\[\]:#]{1,40})[\s:]*+\[\[([^\[\]|\n]++)")
_TEMPLATE_NAME = re.compile(r"\{\{\s*+([^{}|\[\]<>\n]{1,80})")
_IN_PARENTHESES = re.compile(r"[ (（]([^()（）]{3,40})[)）]$")
_DISAMBIGUATION_WORD = re.compile(
    r"__DISAMBIG__|\[\[[^\[\]|:\n]{1,40}:[^\[\]|\n]{0,60}disambiguation pages", re.IGNORECASE
)
_LONGEST_TYPE = 80


class PageSort(NamedTuple):
    """What a page is, and of what type its subject is."""

    kind: PageKind
    type: str = ""


def redirect_target(text: str) -> str:
    """Where a page's text sends its reader, for dumps that do not say so themselves."""
    found = _REDIRECT.match(text)
    return found[2] if found and found[1].lower() in REDIRECT_WORDS else ""


def sort_page(title: str, ns: int, text: str, lead: str) -> PageSort:
    """What the page of a title and a text is; ``lead`` is the text before its first heading."""
    if ns == CATEGORY:
        return PageSort("category")
    if _is_disambiguation(title, text):
        return PageSort("disambiguation")
    kind: PageKind = "list" if LIST_TITLES.match(title) else "article"
    return PageSort(kind, _type(text, lead))


def _is_disambiguation(title: str, text: str) -> bool:
    suffix = _IN_PARENTHESES.search(title)
    if suffix and suffix[1].lower() in DISAMBIGUATION_TITLES:
        return True
    if "disambig" in text or "DISAMBIG" in text or "Disambig" in text:
        if _DISAMBIGUATION_WORD.search(text):
            return True
    return any(_is_disambiguation_template(found[1]) for found in _TEMPLATE_NAME.finditer(text))


def _is_disambiguation_template(name: str) -> bool:
    name = name.strip().replace("_", " ").lower().removeprefix("template:")
    return name in DISAMBIGUATION_TEMPLATES or name.startswith("disambig")


def _type(text: str, lead: str) -> str:
    for found in _TEMPLATE_NAME.finditer(lead):
        name = " ".join(found[1].replace("_", " ").split())
        box = INFOBOX.fullmatch(name)
        if box:
            said = (box["behind"] or box["before"] or "").strip(" :-/").lower()
            kind = said or INFOBOX_TYPES.get(name.lower(), "")
            if kind:
                return kind[:_LONGEST_TYPE]
    described = SHORT_DESCRIPTION.search(text, 0, 4000)
    if described is None:
        return ""
    words = plain_line(described[1])
    return "" if words.lower() == "none" else words[:_LONGEST_TYPE]
