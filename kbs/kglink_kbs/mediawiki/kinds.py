"""What a page is: an article, a redirect, a list, a disambiguation page, a category."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
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
from kglink_kbs.mediawiki.wikitext import plain_line

PageKind = Literal["article", "disambiguation", "list", "category"]

_REDIRECT = re.compile(r"\s*+#\s*+([^\s\[\]:#]{1,40})[\s:]*+\[\[([^\[\]|\n]++)")
_TEMPLATE_NAME = re.compile(r"\{\{\s*+([^{}|\[\]<>\n]{1,80})")
_IN_PARENTHESES = re.compile(r"[ (（]([^()（）]{3,40})[)）]$")
_DISAMBIGUATION_WORD = re.compile(
    r"__DISAMBIG__|\[\[[^\[\]|:\n]{1,40}:[^\[\]|\n]{0,60}disambiguation pages", re.IGNORECASE
)
_LONGEST_TYPE = 80
#: Names of templates that are known at once: pages of a wiki have the same.
_TEMPLATES = 8192
_LONGEST_NAME = 100
#: Short descriptions stand at the very beginning of a page.
_SHORT_DESCRIPTION_BY = 4000


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
    templates = (found[1] for found in _TEMPLATE_NAME.finditer(text))
    lower = "disambig" in text or "Disambig" in text or "DISAMBIG" in text
    if (lower and bool(_DISAMBIGUATION_WORD.search(text))) or is_disambiguation(title, templates):
        return PageSort("disambiguation")
    kind: PageKind = "list" if is_list(title) else "article"
    return PageSort(kind, _type(text, lead))


def is_list(title: str) -> bool:
    """Whether a title is that of a list."""
    return bool(LIST_TITLES.match(title))


def is_disambiguation(title: str, templates: Iterable[str]) -> bool:
    """Whether a page's title or one of its templates says that it tells meanings apart."""
    suffix = _IN_PARENTHESES.search(title)
    if suffix and suffix[1].lower() in DISAMBIGUATION_TITLES:
        return True
    return any(map(_is_disambiguation_template, templates))


@lru_cache(maxsize=_TEMPLATES)
def infobox_type(template: str) -> str:
    """What an infobox is about by its name; empty for any other template."""
    name = " ".join(template[:_LONGEST_NAME].replace("_", " ").split())
    box = INFOBOX.fullmatch(name)
    if not box:
        return ""
    said = (box["behind"] or box["before"] or "").strip(" :-/").lower()
    return (said or INFOBOX_TYPES.get(name.lower(), ""))[:_LONGEST_TYPE]


@lru_cache(maxsize=_TEMPLATES)
def _is_disambiguation_template(name: str) -> bool:
    name = name.strip().replace("_", " ").lower()
    return name in DISAMBIGUATION_TEMPLATES or name.startswith("disambig")


def _type(text: str, lead: str) -> str:
    for found in _TEMPLATE_NAME.finditer(lead):
        if kind := infobox_type(found[1]):
            return kind
    described = SHORT_DESCRIPTION.search(text, 0, _SHORT_DESCRIPTION_BY)
    if described is None:
        return ""
    words = plain_line(described[1])
    return "" if words.lower() == "none" else words[:_LONGEST_TYPE]
