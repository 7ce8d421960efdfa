"""What a page is (article, redirect, list...), what describes its subject, of what type that is.

Many wikis write the text of a page into the parameters of a template, under names of their own.
So prose is known by its length and its words, whatever the parameter is called. They name their
boxes as they like, too: a page may begin with ``{{Ship}}`` or ``{{EquipmentPage}}``. A template
that stands on top of many pages names a type, and so does a category of many. Both are counted in
the first pass, and decided on when all pages are known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

from kglink_kbs.mediawiki.languages import (
    ABOUT_TEXT,
    BOX_WORDS,
    CANONICAL_NAMESPACES,
    CATEGORY,
    DISAMBIGUATION_TEMPLATES,
    DISAMBIGUATION_TITLES,
    INFOBOX,
    INFOBOX_TYPES,
    LIST_TITLES,
    NAMESPACE_ALIASES,
    REDIRECT_WORDS,
    SHORT_DESCRIPTION,
)
from kglink_kbs.mediawiki.markup import brace_regions, without_braces
from kglink_kbs.mediawiki.site import Site
from kglink_kbs.mediawiki.wikitext import plain_line

PageKind = Literal["article", "disambiguation", "list", "category"]

_REDIRECT = re.compile(r"\s*+#\s*+([^\s\[\]:#]{1,40})[\s:]*+\[\[([^\[\]|\n]++)")
_TEMPLATE_NAME = re.compile(r"\{\{\s*+([^{}|\[\]<>\n]{1,80})")
_IN_PARENTHESES = re.compile(r"[ (（]([^()（）]{3,40})[)）]$")
_DISAMBIGUATION_WORD = re.compile(
    r"__DISAMBIG__|\[\[[^\[\]|:\n]{1,40}:[^\[\]|\n]{0,60}disambiguation pages", re.IGNORECASE
)
_OF_A_LINK = re.compile(r"needed|link|inline|fix")
_LONGEST_TYPE = 80
#: Names of templates that are known at once: pages of a wiki have the same.
_TEMPLATES = 8192
_LONGEST_NAME = 100
#: Short descriptions stand at the very beginning of a page.
_SHORT_DESCRIPTION_BY = 4000


def redirect_target(text: str) -> str:
    """Where a page's text sends its reader, for dumps that do not say so themselves."""
    found = _REDIRECT.match(text)
    return found[2] if found and found[1].lower() in REDIRECT_WORDS else ""


def sort_page(title: str, ns: int, text: str, lead: str) -> tuple[PageKind, str]:
    """What the page of a title and a text is, and the type of its subject.

    ``lead`` is the text before its first heading.
    """
    if ns == CATEGORY:
        return "category", ""
    templates = (found[1] for found in _TEMPLATE_NAME.finditer(text))
    lower = "disambig" in text or "Disambig" in text or "DISAMBIG" in text
    if (lower and bool(_DISAMBIGUATION_WORD.search(text))) or is_disambiguation(title, templates):
        return "disambiguation", ""
    kinds = (infobox_type(found[1]) for found in _TEMPLATE_NAME.finditer(lead))
    type_ = next(filter(None, kinds), "")
    if not type_ and (described := SHORT_DESCRIPTION.search(text, 0, _SHORT_DESCRIPTION_BY)):
        words = plain_line(described[1])
        type_ = "" if words.lower() == "none" else words[:_LONGEST_TYPE]
    return "list" if is_list(title) else "article", type_


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
    # An article says of a link that it "needs disambiguation".
    is_of_page = name.startswith("disambig") and not _OF_A_LINK.search(name)
    return name in DISAMBIGUATION_TEMPLATES or is_of_page


#: A description needs no more of a text than this, whatever stands before it.
LONGEST_LEAD = 50_000
_SHORT_TEXT, _LONG_TEXT = 20_000, 100_000
#: Letters of a value of a template that may be the description, and of one that surely is.
_SHORT, _LONG = 30, 100
#: Lines of prose have this many words, or letters in scripts without spaces.
_WORDS, _LETTERS = 5, 16
#: Without a stop at its end a line has more words.
_WORDS_WITHOUT_STOP = 10
#: Words that begin with a small letter, or with one that has no case: lists of names have few.
_LEAST_SMALL = 0.4
#: The same for what is no sentence, and how many words it has at least.
_LEAST_SMALL_OF_FEW, _FEW_WORDS = 0.15, 3
_LIST_MARK = re.compile(r"(?m)^[ \t]*+[*#]++[:;]*+[ \t]*+")
#: Stands before an item of a list while a text is made plain: XML cannot hold it.
_ITEM = "\x07"
_STOP = re.compile(r"[.!?…。！？؟।][\"'”’»)\]」』）]*+$")
_WORD = re.compile(r"[^\W\d_][\w'’-]*+")
#: Links and calls in a value, whose bars divide nothing; calls are taken out before.
_LINK = re.compile(r"\[\[[^\[\]\n]*+\]\]")
_NAME = re.compile(r"[^=\[\]{}<>\n]{0,80}=")
#: A title with such a letter is described by a value of a template that has mostly such letters.
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")


def description_of(title: str, text: str, lead: str, clean: Callable[[str], str]) -> str:
    """The prose that describes the subject of a page, a paragraph a line; empty if there is none.

    ``lead`` is the text before the first heading; ``clean`` makes wikitext plain. Of lists only
    items that are sentences count.
    """
    lead = lead[:LONGEST_LEAD]
    if is_list(title):
        return clean(lead) or clean(text[:_SHORT_TEXT])
    return next(filter(None, _descriptions(title, text, lead, clean)), "")


def _descriptions(title: str, text: str, lead: str, clean: Callable[[str], str]) -> Iterator[str]:
    """What may describe a page, the best first; some are empty."""
    words = clean(_marked(lead))
    yield _from_first_sentence(title, words)
    yield _said_in_templates(title, lead, clean)
    below = clean(_marked(text[:_SHORT_TEXT])) if len(lead) < len(text) else words
    yield prose_of(below)
    if len(text) > _SHORT_TEXT:
        yield prose_of(clean(_marked(text[:_LONG_TEXT])))
    yield _said_in_templates(title, text[len(lead) : _LONG_TEXT], clean)
    yield from filter(_tells, (one.replace(_ITEM, "") for one in (words, below)))


def prose_of(words: str) -> str:
    """The lines of a text that are prose, items of lists too."""
    lines = (line.removeprefix(_ITEM) for line in words.split("\n"))
    return "\n".join(line for line in lines if is_prose(line))


def _from_first_sentence(title: str, words: str) -> str:
    """A lead without what stands before its first sentence; empty if it has none."""
    lines = words.split("\n")
    name = title.partition(" (")[0].lower()
    for number, line in enumerate(lines):
        named = name in line.lower() and len(line) > len(name) and _STOP.search(line)
        if line[:1] != _ITEM and (named or is_prose(line)):
            if number and ":" not in lines[number - 1] and _tells(lines[number - 1]):
                number -= 1  # noqa: PLW2901 - a sentence that is broken over two lines
            # Of a list only items that are sentences.
            kept = (one for one in lines[number:] if one[:1] != _ITEM or is_prose(one))
            return "\n".join(one.removeprefix(_ITEM) for one in kept)
    return prose_of(words)


def _tells(words: str) -> bool:
    """Whether a text that has no long sentence has a short one, or some words that are no names."""
    if _STOP.search(words):
        return True
    found = _WORD.findall(words)
    small = sum(not word[0].isupper() for word in found)
    return len(found) >= _FEW_WORDS and small >= _LEAST_SMALL_OF_FEW * len(found)


def is_prose(line: str) -> bool:
    """Whether a line reads like a sentence: by its words, their capitals and its end."""
    if len(line) < _LETTERS:
        return False
    words = _WORD.findall(line)
    letters = sum(map(len, words))
    spaceless = letters >= _LETTERS and letters > 8 * len(words)
    stops = bool(_STOP.search(line))
    if len(words) < (_WORDS if stops else _WORDS_WITHOUT_STOP) and not (spaceless and stops):
        return False
    small = sum(not word[0].isupper() for word in words)
    return small >= _LEAST_SMALL * len(words)


def _marked(text: str) -> str:
    """``text`` with a mark before each item of a list, which the cleaner leaves there."""
    return _LIST_MARK.sub(_ITEM, text) if "*" in text or "#" in text else text


def _said_in_templates(title: str, text: str, clean: Callable[[str], str]) -> str:
    """The first value of a template that is long prose in the title's script, else the longest."""
    best = ""
    for value in template_values(text) if "{{" in text else ():
        if len(value) < max(_SHORT, len(best)) or (
            value.isascii() and value.count(" ") < _WORDS - 1
        ):
            continue
        lines = clean(_marked(value)).split("\n")
        found = "\n".join(one for one in lines if one[:1] != _ITEM and is_prose(one))
        if found and _LATIN.search(title) and len(_LATIN.findall(found)) * 2 < len(found):
            continue
        if len(found) >= _LONG:
            return found
        best = max(best, found, key=len)
    return best


def template_values(text: str) -> Iterator[str]:
    """The long values of the outermost templates of a text, named and unnamed, in their order."""
    for start, end in brace_regions(text):
        if end - start < _SHORT or text[start : start + 2] != "{{":
            continue
        inner = text[start + 2 : end - 2]
        at = 0
        for number, value in enumerate(_hidden(inner).split("|")):
            if number and len(value) >= _SHORT:
                name = _NAME.match(inner, at, at + len(value))
                yield inner[name.end() if name else at : at + len(value)].strip()
            at += len(value) + 1


def _hidden(inner: str) -> str:
    """The inside of a template, with calls and links in it made blank; of the same length."""
    pieces: list[str] = []
    at = 0
    for start, end in brace_regions(inner):
        if start >= at:
            pieces += (inner[at:start], " " * (end - start))
            at = end
    hidden = "".join((*pieces, inner[at:]))
    return _LINK.sub(lambda link: " " * len(link[0]), hidden)


_PART_OF_NAME = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|[^\W_]+")
_TEMPLATE = re.compile(r"(?m)^[ \t]*+\{\{[ \t]*+([^{}|\[\]<>\n#:]{1,60}?)\s*+(\||\}\})")
_PARAMETER = re.compile(r"\|[ \t]*+[^\W\d_][^=|{}\[\]\n]{0,40}=")
_LINKS = re.compile(r"\[\[[^\[\]]*+\]\]|<[^<>]*+>")
_TOP = 3000
#: A template with this many named values is a box, whatever it is called; without any, if it is
#: all that stands above the first heading.
_VALUES = 2
_MOST_CATEGORIES = 12
_LONGEST_SHOWN = 60
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
    others = CANONICAL_NAMESPACES | NAMESPACE_ALIASES.get(site.language.partition("-")[0], {})
    names = {*own, *(name for name, key in others.items() if key == CATEGORY)}
    either = "|".join(re.escape(name) for name in sorted(names) if name)
    return re.compile(rf"\[\[[ _]*+(?:{either})[ _]*+:[ _]*+([^\[\]|\n#]{{1,80}})", re.IGNORECASE)


class TypeSigns:
    """Counts what tells of types in the pages of a chunk."""

    def __init__(self) -> None:
        self.pages = self.typed = 0
        self.templates, self.categories = Counter[str](), Counter[str]()

    def of(
        self, type_: str, text: str, lead: str, categories: re.Pattern[str], *, count: bool
    ) -> tuple[str, str]:
        """A page's possible types: its template, and its categories joined by ``|``.

        Both are empty if its infobox says its type. Without ``count`` nothing is counted.
        """
        self.pages += count
        self.typed += count and bool(type_)
        if type_:
            return "", ""
        template = _box(lead, text)
        ends = text if len(text) < 2 * _TOP else f"{text[:_TOP]}\n{text[-_TOP:]}"
        found = dict.fromkeys(map(_category, categories.findall(ends)))
        kept = [name for name in found if name][:_MOST_CATEGORIES]
        if count:
            self.templates.update([template] if template else ())
            self.categories.update(kept)
        return template, "|".join(kept)


def add_names(names: Counter[str], more: Mapping[str, int]) -> None:
    """Count ``more`` names; where they become too many, the rarest are forgotten."""
    names.update(more)
    if len(names) > _MOST_NAMES:
        for name, _ in names.most_common()[_MOST_NAMES // 2 :]:
            del names[name]


class TypeNames:
    """Which templates and categories are types in a wiki, by what all chunks of a dump tell."""

    def __init__(self, chunks: Iterable[Mapping[str, Any]]) -> None:
        pages = typed = 0
        templates, categories = Counter[str](), Counter[str]()
        for about in chunks:
            pages, typed = pages + about["pages"], typed + about["typed"]
            add_names(templates, about["templates"])
            add_names(categories, about["categories"])
        if 2 * typed > pages:  # where most have an infobox that is known, others are not guessed
            templates.clear()
            categories.clear()
        least = max(_LEAST_PAGES, min(_LEAST_SHARE * pages, _ENOUGH_PAGES))
        # The word that this wiki's names of boxes begin with, if one does.
        names: Counter[str] = Counter()
        bearers: Counter[str] = Counter()
        for name, count in templates.items():
            word, space, _ = name.partition(" ")
            names[word] += bool(space)
            bearers[word] += count
        word = max(names, key=lambda one: bearers[one], default="")
        is_own = names[word] >= _BOXES and 2 * bearers[word] >= sum(templates.values())
        box = f"{word} " if is_own else ""
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

    def name(self, template: str, categories: str) -> str:
        """The type of a page with a box and categories; empty where none tells one."""
        if said := self._templates.get(template):
            return said
        known = [name for name in categories.split("|") if name in self._categories]
        return max(known, key=lambda name: self._categories[name], default="")


def _box(lead: str, text: str) -> str:
    """What the first box on top of a page is about, by its name."""
    top = lead[:_TOP] if "{{" in lead else text[:_TOP]
    alone: bool | None = None
    for found in _TEMPLATE.finditer(top):
        words = [word.lower() for word in _PART_OF_NAME.findall(found[1])]
        is_box = any(word in BOX_WORDS for word in words)
        # Up to the word that says that it is a box.
        box = next((at for at, word in enumerate(words) if at and word in BOX_WORDS), None)
        kept = [word for word in words[:box] if box or word not in BOX_WORDS]
        if not kept or any(word in ABOUT_TEXT for word in words):
            continue
        behind = top[found.end() - 1 : found.end() + _TOP]
        if found[2] != "|" and not is_box:
            if alone is None:  # the same for every call, and slow to find out
                alone = not _PART_OF_NAME.search(
                    _LINKS.sub("", without_braces(lead[:LONGEST_LEAD]))
                )
            is_box = alone
        if is_box or len(_PARAMETER.findall(behind)) >= _VALUES:
            return " ".join(kept)[:_LONGEST_SHOWN]
    return ""


def _category(name: str) -> str:
    """A category as a type; empty where it tells of the text, or of a number."""
    shown = " ".join(name.replace("_", " ").split())
    words = {word.lower() for word in _PART_OF_NAME.findall(shown)}
    if not words or words & ABOUT_TEXT or any(sign.isdecimal() for sign in shown):
        return ""
    return shown.lower()[:_LONGEST_SHOWN]
