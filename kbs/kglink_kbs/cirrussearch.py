"""CirrusSearch dumps: Wikipedia's search index as JSON lines, a page after its number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote

from pydantic import Field

from kglink.plugins import PluginSettings
from kglink.records import Alias, Entity, Record
from kglink.sources import Problems, Source, SourceHead
from kglink.text.sentences import first_sentences
from kglink_kbs.json_stream import json_objects
from kglink_kbs.values import (
    BadValue,
    finite_number,
    good_ones,
    key_text,
    list_of,
    object_of,
    one_line,
    plain_text,
    shortened,
)

_HEAD = re.compile(rb'\s*+\{\s*"index"\s*:\s*\{[^{}]{0,300}"_id"\s*:\s*"?[0-9]+"?')
_PAGE = re.compile(rb'"(?:opening_text|source_text|auxiliary_text|incoming_links|wiki)"\s*:')
_WIKI = re.compile(
    r"([a-z_]+?)(wiki|wiktionary|wikibooks|wikiquote|wikisource|wikinews|wikivoyage)"
)
_SITES = {
    "commons": "https://commons.wikimedia.org/wiki/",
    "species": "https://species.wikimedia.org/wiki/",
    "meta": "https://meta.wikimedia.org/wiki/",
    "wikidata": "https://www.wikidata.org/wiki/",
}

_MODULES = ("modul", "módulo", "модуль")


class CirrusSearchSettings(PluginSettings):
    """Settings of ``kglink/cirrussearch``."""

    namespaces: tuple[int, ...] = (0,)
    """Keys of the namespaces whose pages are entities; 0 holds the articles."""
    sentences: int = Field(10, ge=0)
    """Sentences of an article's opening to take as its description."""
    popularity: Literal["incoming_links", "popularity_score"] = "incoming_links"
    """The popularity: pages that link here, or the share of page views."""
    disambiguation: bool = False
    """Keep disambiguation pages."""
    lists: bool = True
    """Keep pages that are lists by their title."""


class CirrusSearchAdapter:
    """Reads the pages of a CirrusSearch dump as entities."""

    def __init__(self, settings: CirrusSearchSettings) -> None:
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield an entity for each page, in the order of the dump."""
        pages = _pages(source, problems)
        return good_ones(pages, lambda page: self._entity(*page, problems), problems)

    def _entity(self, key: str, page: Mapping[str, Any], problems: Problems) -> Entity | None:
        from kglink_kbs.mediawiki.kinds import is_disambiguation, is_list

        title = one_line(page.get("title"), "title")
        if not title:
            raise BadValue("no title", "A page of a CirrusSearch dump has one.")
        namespace = finite_number(page.get("namespace"), "namespace")
        if namespace not in self._settings.namespaces:
            problems.pass_over("page of another namespace")
            return None
        given = page.get("template")
        names = [one for one in given if isinstance(one, str)] if isinstance(given, list) else []
        # Without their namespace; modules stand among them.
        named = (name for name in names if not name.lower().startswith(_MODULES))
        templates = [name.partition(":")[2] or name for name in named]
        if not self._settings.disambiguation and is_disambiguation(title, templates):
            problems.pass_over("disambiguation page")
            return None
        if not self._settings.lists and is_list(title):
            problems.pass_over("list page")
            return None
        item = page.get("wikibase_item") or ""
        if item and not (isinstance(item, str) and re.fullmatch(r"Q[1-9][0-9]*", item)):
            raise BadValue(f"wikibase_item is {shortened(str(item))}, no id of Wikidata")
        opening = plain_text(page.get("opening_text"), "opening_text")
        wiki = one_line(page.get("wiki"), "wiki")
        site = ""
        if found := _WIKI.fullmatch(wiki):
            name, project = found[1], "wikipedia" if found[2] == "wiki" else found[2]
            site = _SITES.get(name) or f"https://{name.replace('_', '-')}.{project}.org/wiki/"
        return Entity(
            key=key,
            title=title,
            description=" ".join(first_sentences(opening, self._settings.sentences).split()),
            type=_type(templates, page),
            url=site and site + quote(title.replace(" ", "_"), safe="/:;@$!*(),~"),
            popularity=finite_number(page.get(self._settings.popularity), "popularity"),
            language=one_line(page.get("language"), "language"),
            aliases=_redirects(page.get("redirect"), title, self._settings.namespaces),
            xrefs=(f"wikidata:{item}",) if item else (),
        )


def sniff(head: SourceHead) -> float:
    """Sure of a line that numbers a page and a line that looks like one."""
    first, _, rest = head.head.partition(b"\n")
    if not _HEAD.match(first):
        return 0.0
    return 0.95 if _PAGE.search(rest) else 0.5


def _pages(
    source: Source, problems: Problems
) -> Iterator[tuple[str, tuple[str, Mapping[str, Any]]]]:
    """Each page with its place and id, which is in the line before it or in its own."""
    key = waiting = ""
    lone = "an id without its page"
    hint = "The dump may be cut short, or lines of it may be missing."
    for line, fields in json_objects(source, problems):
        place, action = source.where(line), fields.get("index")
        if isinstance(action, dict) and len(fields) == 1:
            if key:
                problems.refuse(lone, waiting, hint)
            key, waiting = next(good_ones([(place, action)], _id, problems), ""), place
        elif key:
            yield place, (key, fields)
            key = ""
        elif isinstance(fields.get("_source"), dict):
            for inner in good_ones([(place, fields)], _id, problems):
                yield place, (inner, fields["_source"])
        else:
            before = 'Before each page stands a line such as {"index":{"_id":"12"}}.'
            problems.refuse("a page without the line of its id", place, before)
    if key:
        problems.refuse(lone, waiting, hint)


def _id(action: Mapping[str, Any]) -> str:
    key = key_text(action.get("_id"), "_id")
    if not key:
        raise BadValue("an id line without _id")
    return key


def _type(templates: list[str], page: Mapping[str, Any]) -> str:
    """The type by an infobox's name, else the short description."""
    from kglink_kbs.mediawiki.kinds import infobox_type

    for name in templates:
        if kind := infobox_type(name):
            return kind
    given = page.get("descriptions", page.get("description"))
    if isinstance(given, dict):
        given = given.get(one_line(page.get("language"), "language"))
    if isinstance(given, list):
        given = given[0] if given else ""
    return one_line(given, "description")[:80] if isinstance(given, str) else ""


def _redirects(value: object, title: str, namespaces: tuple[int, ...]) -> tuple[Alias, ...]:
    """The titles of the redirects from the kept namespaces."""
    redirects = [object_of(item, "a redirect") for item in list_of(value, "redirect")]
    kept = (one for one in redirects if (one.get("namespace") or 0) in namespaces)
    surfaces = dict.fromkeys(one_line(one.get("title"), "redirect") for one in kept)
    surfaces.pop("", None)
    surfaces.pop(title, None)
    return tuple(Alias(surface, "redirect") for surface in surfaces)
