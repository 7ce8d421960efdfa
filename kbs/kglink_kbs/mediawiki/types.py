"""Types of pages whose infobox does not say one: from what many pages of the wiki have alike.

Wikis name their boxes as they like: a page may begin with ``{{Ship}}`` or ``{{EquipmentPage}}``. A
template that stands on top of many pages names a type, and so does a category of many. Both are
counted in the first pass, and decided on when all pages are known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Self

from kglink_kbs.mediawiki.describe import LONGEST_LEAD
from kglink_kbs.mediawiki.languages import ABOUT_TEXT, BOX_WORDS, CANONICAL_NAMESPACES, CATEGORY
from kglink_kbs.mediawiki.markup import without_braces
from kglink_kbs.mediawiki.site import Site

_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|[^\W_]+")
_TEMPLATE = re.compile(r"(?m)^[ \t]*+\{\{[ \t]*+([^{}|\[\]<>\n#:]{1,60}?)\s*+(\||\}\})")
_PARAMETER = re.compile(r"\|[ \t]*+[^\W\d_][^=|{}\[\]\n]{0,40}=")
_LINKS = re.compile(r"\[\[[^\[\]]*+\]\]|<[^<>]*+>")
_TOP = 3000
#: A template with this many named values is a box, whatever it is called; without any, if it is
#: all that stands above the first heading.
_VALUES = 2
_MOST_CATEGORIES = 12
_LONGEST_TYPE = 60
#: A type is shared by this share of all pages, by three at least; fifty are always enough.
_LEAST_SHARE, _LEAST_PAGES, _ENOUGH_PAGES = 0.01, 3, 50
#: By at most this share, if it is a category: what nearly all pages are tells nothing.
_MOST_SHARE = 0.5
#: A word that begins so many names of boxes, and those of half of the pages, is the wiki's own
#: word for a box.
_BOXES = 4
#: Names that are counted at once: of more the rarest are forgotten.
_MOST_NAMES = 100_000


def category_pattern(site: Site) -> re.Pattern[str]:
    """What finds the categories in a text, under all names of their namespace."""
    own = [space.name for space in site.namespaces if space.key == CATEGORY]
    names = {*own, *(name for name, key in CANONICAL_NAMESPACES.items() if key == CATEGORY)}
    either = "|".join(re.escape(name) for name in sorted(names) if name)
    return re.compile(rf"\[\[[ _]*+(?:{either})[ _]*+:[ _]*+([^\[\]|\n#]{{1,80}})", re.IGNORECASE)


class TypeSigns:
    """Counts what tells of types in the pages of a chunk."""

    def __init__(self) -> None:
        self._pages = 0
        self._typed = 0
        self._templates: Counter[str] = Counter()
        self._categories: Counter[str] = Counter()

    def of(
        self, type_: str, text: str, lead: str, categories: re.Pattern[str], *, count: bool
    ) -> tuple[str, str]:
        """The types by its template and, split by ``|``, by its categories that a page may have.

        None, where its infobox says its type. Without ``count`` it adds nothing to what is counted.
        """
        self._pages += count
        self._typed += count and bool(type_)
        if type_:
            return "", ""
        template = _box(lead, text)
        ends = text if len(text) < 2 * _TOP else f"{text[:_TOP]}\n{text[-_TOP:]}"
        found = dict.fromkeys(map(_category, categories.findall(ends)))
        kept = [name for name in found if name][:_MOST_CATEGORIES]
        if count:
            self._templates.update([template] if template else ())
            self._categories.update(kept)
        return template, "|".join(kept)

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "pages": self._pages,
            "typed": self._typed,
            "templates": self._templates,
            "categories": self._categories,
        }


def add_names(names: Counter[str], more: Mapping[str, int]) -> None:
    """Count ``more`` names; where they become too many, the rarest are forgotten."""
    names.update(more)
    if len(names) > _MOST_NAMES:
        for name, _ in names.most_common()[_MOST_NAMES // 2 :]:
            del names[name]


class TypeNames:
    """Which templates and categories are types in a wiki."""

    def __init__(
        self, pages: int, templates: Mapping[str, int], categories: Mapping[str, int]
    ) -> None:
        least = max(_LEAST_PAGES, min(_LEAST_SHARE * pages, _ENOUGH_PAGES))
        box = _own_word_for_box(templates)
        self._templates = {
            name: name.removeprefix(box)
            for name, count in templates.items()
            if count >= least or (box and name.startswith(box))
        }
        self._categories = {
            name: count
            for name, count in categories.items()
            if least <= count <= max(_MOST_SHARE * pages, _LEAST_PAGES)
        }

    @classmethod
    def of(cls, chunks: Iterable[Mapping[str, Any]]) -> Self:
        """By what all chunks of a dump tell.

        Where most pages have an infobox that is known as one, others are not guessed at.
        """
        pages = typed = 0
        templates: Counter[str] = Counter()
        categories: Counter[str] = Counter()
        for about in chunks:
            pages, typed = pages + about["pages"], typed + about["typed"]
            add_names(templates, about["templates"])
            add_names(categories, about["categories"])
        return cls(0, {}, {}) if 2 * typed > pages else cls(pages, templates, categories)

    def name(self, template: str, categories: str) -> str:
        """The type of a page with a box and categories; empty where none tells one."""
        if said := self._templates.get(template):
            return said
        known = [name for name in categories.split("|") if name in self._categories]
        return max(known, key=lambda name: self._categories[name], default="")


def _own_word_for_box(templates: Mapping[str, int]) -> str:
    """The word, with a space, that this wiki's names of boxes begin with; empty if none does."""
    names: Counter[str] = Counter()
    pages: Counter[str] = Counter()
    for name, count in templates.items():
        word, space, _ = name.partition(" ")
        names[word] += bool(space)
        pages[word] += count
    word = max(names, key=lambda one: pages[one], default="")
    found = names[word] >= _BOXES and 2 * pages[word] >= sum(templates.values())
    return f"{word} " if found else ""


def _box(lead: str, text: str) -> str:
    """What the first box on top of a page is about, by its name."""
    top = lead[:_TOP] if "{{" in lead else text[:_TOP]
    alone: bool | None = None
    for found in _TEMPLATE.finditer(top):
        words = [word.lower() for word in _WORD.findall(found[1])]
        is_box = any(word in BOX_WORDS for word in words)
        kept = _until_box(words)
        if not kept or any(word in ABOUT_TEXT for word in words):
            continue
        behind = top[found.end() - 1 : found.end() + _TOP]
        if found[2] != "|" and not is_box:
            if alone is None:  # the same for every call, and slow to find out
                alone = not _WORD.search(_LINKS.sub("", without_braces(lead[:LONGEST_LEAD])))
            is_box = alone
        if is_box or len(_PARAMETER.findall(behind)) >= _VALUES:
            return " ".join(kept)[:_LONGEST_TYPE]
    return ""


def _until_box(words: list[str]) -> list[str]:
    """The words of a template's name up to the one that says that it is a box."""
    for number, word in enumerate(words):
        if word in BOX_WORDS and number:
            return words[:number]
    return [word for word in words if word not in BOX_WORDS]


def _category(name: str) -> str:
    """A category as a type; empty where it tells of the text, or of a number."""
    shown = " ".join(name.replace("_", " ").split())
    words = {word.lower() for word in _WORD.findall(shown)}
    if not words or words & ABOUT_TEXT or any(sign.isdecimal() for sign in shown):
        return ""
    return shown.lower()[:_LONGEST_TYPE]
