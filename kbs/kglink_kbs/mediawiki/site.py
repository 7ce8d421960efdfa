"""One wiki: what its dump's ``<siteinfo>`` says of it, and which pages its links mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote_to_bytes
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from kglink.errors import SourceError
from kglink_kbs.guarded_xml import refuse_long_namespaces
from kglink_kbs.mediawiki.languages import (
    CANONICAL_NAMESPACES,
    DOTTED_CAPITALS,
    FILE,
    LANGUAGE_CODES,
    MAIN,
    NAMESPACE_ALIASES,
    SISTER_PROJECTS,
)
from kglink_kbs.mediawiki.pages import refuse_declarations
from kglink_kbs.values import unescaped

_URL_SAFE = "/:;@$!*(),~"


class Namespace(NamedTuple):
    """A namespace: its key, its name in this wiki, and whether its titles keep a small initial."""

    key: int
    name: str
    case_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """One wiki."""

    base: str = ""
    case: str = "first-letter"
    language: str = ""
    namespaces: tuple[Namespace, ...] = ()

    def url(self, title: str) -> str:
        """The address of a page; empty where the dump does not say where its wiki is."""
        name = quote(title.replace(" ", "_"), safe=_URL_SAFE) if self.base else ""
        for mark in ("?title=", "&title=", "/wiki/", "/index.php/"):
            before, found, _ = self.base.partition(mark)
            if found:
                return before + found + name
        before, slash, _ = self.base.rpartition("/")
        return (self.base + "/" if before.endswith(":/") else before + slash) + name


#: Facts of a site go into every row that is made of its pages.
_LONGEST_FACT, _MOST_ELEMENTS = 1000, 2000


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


def read_site(header: bytes, label: str) -> Site:
    """The site of a dump from its beginning, up to the first page."""
    tree, elements = TreeBuilder(), list[Element]()

    def start(name: str, attributes: dict[str, str]) -> None:
        elements.append(tree.start(name.rpartition(" ")[2], attributes))

    def refuse(what: str) -> SourceError:
        hint = "Export or download it again; no wiki makes such a file."
        return SourceError(f"{label} {what}", hint=hint)

    parser = expat.ParserCreate(namespace_separator=" ")
    refuse_declarations(parser, label)
    refuse_long_namespaces(parser, refuse)
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: tree.end(name.rpartition(" ")[2])
    parser.CharacterDataHandler = tree.data
    try:
        parser.Parse(header, False)
    except expat.ExpatError as error:
        raise SourceError(
            f"{label} is no well-formed XML: {expat.ErrorString(error.code)} "
            f"(line {error.lineno:,}, byte {parser.ErrorByteIndex:,} of the unpacked file)",
            hint="Export or download it again.",
        ) from error
    except (ValueError, LookupError) as error:  # an encoding that expat does not know
        raise SourceError(f"{label} cannot be read as XML: {error}") from error
    root = elements[0].tag if elements else ""
    if root != "mediawiki":
        raise SourceError(
            f"{label} is no MediaWiki export: its root element is <{root[:60]}>",
            hint="An export begins with <mediawiki ...>; kglink plugins lists other formats.",
        )
    facts = {one.tag: _words(one.text) for one in reversed(elements)}  # the first counts
    longest = max(map(len, facts.values()), default=0)
    if longest > _LONGEST_FACT or len(elements) > _MOST_ELEMENTS:
        raise refuse(f"holds {len(elements):,} elements before its first page, the longest of "
                     f"{longest:,} characters")  # fmt: skip
    case = facts.get("case") or "first-letter"
    spaces = tuple(
        Namespace(int(key), _words(one.text), (one.get("case") or case) == "case-sensitive")
        for one in elements
        if one.tag == "namespace" and re.fullmatch(r"-?[0-9]{1,6}", key := one.get("key", ""))
    )
    language = elements[0].get("http://www.w3.org/XML/1998/namespace lang", "")
    return Site(facts.get("base", ""), case, language, spaces)


#: ``article``: a page that may be an entity; ``hidden``: shows nothing where it stands (a file,
#: a category, the same page in another language); ``text``: a link elsewhere, whose text is read.
TargetKind = Literal["article", "hidden", "text"]

_INVALID = re.compile(r"[<>\[\]{}|\x00-\x1f\x7f\ufffd]")
#: Marks that MediaWiki takes out of titles.
_UNSEEN = re.compile("[\u200e\u200f\u202a-\u202e\ufeff\u00ad]")
_MOST_BYTES = 255
_CACHE_SIZE = 50_000
#: Longer targets, with all that percent signs and entities may add, are no titles.
_LONGEST = 4 * _MOST_BYTES


class Target(NamedTuple):
    """What a link points to; ``title`` is the full title of an article, else empty."""

    kind: TargetKind
    title: str = ""


_TEXT = Target("text")
_HIDDEN = Target("hidden")


class Titles:
    """The titles of one wiki."""

    def __init__(
        self, site: Site, kept: Collection[int] = (MAIN,), interwiki: Iterable[str] = ()
    ) -> None:
        self._kept = frozenset(kept)
        self._spaces = _namespaces(site)
        self._has_dotted_capital = site.language.partition("-")[0] in DOTTED_CAPITALS
        self._main_keeps_case = site.case == "case-sensitive"
        main = next((space for space in site.namespaces if space.key == MAIN), None)
        if main is not None:
            self._main_keeps_case = main.case_sensitive
        self._foreign = SISTER_PROJECTS | {prefix.lower().strip(": ") for prefix in interwiki}
        self._target: Callable[[str], Target] = lru_cache(_CACHE_SIZE)(self._read)

    def target(self, raw: str) -> Target:
        """What ``[[raw]]`` points to."""
        return _TEXT if len(raw) > _LONGEST else self._target(raw)

    def page(self, title: str) -> tuple[int, str]:
        """Namespace and normalised title of a page by its full title, as exports write it."""
        prefix, colon, rest = title.partition(":")
        space = self._spaces.get(_folded(prefix)) if colon else None
        if space is None:
            return MAIN, self._initial(title, self._main_keeps_case)
        return space.key, f"{space.name}:{self._initial(rest.strip(), space.case_sensitive)}"

    def _read(self, raw: str) -> Target:
        text = unescaped(raw)
        if "%" in text:
            with suppress(UnicodeDecodeError):
                text = unquote_to_bytes(text).decode("utf-8")
        text = _spaced(text.partition("#")[0])
        plain = text.lstrip(": ")
        if not plain:
            return _TEXT
        shown = text.startswith(":")
        prefix, colon, rest = plain.partition(":")
        if colon:
            name, rest = _folded(prefix), rest.strip()
            space = self._spaces.get(name)
            if space is not None:
                return self._in_namespace(space, rest, shown)
            if name in LANGUAGE_CODES:
                return _TEXT if shown else _HIDDEN
            if name in self._foreign:
                return _TEXT
        if MAIN not in self._kept or not _is_title(plain):
            return _TEXT
        return Target("article", self._initial(plain, self._main_keeps_case))

    def _in_namespace(self, space: Namespace, rest: str, shown: bool) -> Target:
        if not shown and space.key in _NOT_SHOWN:
            return _HIDDEN
        if space.key not in self._kept or not _is_title(rest):
            return _TEXT
        return Target("article", f"{space.name}:{self._initial(rest, space.case_sensitive)}")

    def _initial(self, title: str, keeps_case: bool) -> str:
        """The title with a capital initial, where the wiki wants one."""
        first = title[:1]
        if keeps_case or not first.islower():
            return title
        upper = "İ" if first == "i" and self._has_dotted_capital else first.upper()
        # One letter for one (no SS for ß), and Georgian has no capitals in titles.
        if len(upper) != 1 or "\u10d0" <= first <= "\u10ff":
            return title
        return upper + title[1:]


_NOT_SHOWN = frozenset({FILE, CANONICAL_NAMESPACES["category"]})


def pages_above(title: str) -> list[str]:
    """The titles of the pages that a title would be a subpage of, from the topmost on."""
    parts = title.split("/")
    above = ("/".join(parts[:count]).rstrip() for count in range(1, len(parts)))
    return [one for one in dict.fromkeys(above) if one and not one.endswith(":")]


def tails_of(title: str) -> list[str]:
    """What stands behind each slash of a title, in small letters."""
    return [part.strip().lower() for part in title.split("/")[1:]]


def pages_it_may_be_part_of(title: str, tails: Set[str]) -> list[str]:
    """The titles that may own this one; the first that is a page does.

    ``tails`` repeat in a wiki (``gallery``); titles without one are things of their own.
    """
    above = pages_above(title)
    parts = [one for one in (*above, title) if not tails.isdisjoint(tails_of(one))]
    if title not in parts:
        return []
    return [one for one in reversed(above) if one not in parts] + parts[:-1]


def _namespaces(site: Site) -> dict[str, Namespace]:
    """Every name of every namespace but the main one, in small letters."""
    own = {space.key: space for space in site.namespaces}
    aliases = CANONICAL_NAMESPACES | NAMESPACE_ALIASES.get(site.language.partition("-")[0], {})
    spaces = {
        name: own.get(key, Namespace(key, name.capitalize())) for name, key in aliases.items()
    }
    spaces |= {_folded(space.name): space for space in site.namespaces if space.key != MAIN}
    spaces.pop("", None)
    return spaces


def _spaced(text: str) -> str:
    if not text.isascii():
        text = _UNSEEN.sub("", text)
    return " ".join(text.replace("_", " ").split())


def _folded(name: str) -> str:
    return _spaced(name).lower()


def _is_title(text: str) -> bool:
    if not text or _INVALID.search(text):
        return False
    return len(text) <= _MOST_BYTES // 4 or len(text.encode("utf-8", "replace")) <= _MOST_BYTES
