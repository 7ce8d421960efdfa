"""Worlds as files: in the project's own input formats, and as MediaWiki XML exports.

What an adapter must find in an export can be counted while it is written: every article has a
page id, redirects from its other names, and links to other articles with anchors that are known.
Around them stands what real pages hold: infoboxes, references, tables, files, comments, categories.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple, TextIO

from kglink.records import Document, Entity
from worlds.chance import Draws, mix
from worlds.world import World

#: Links per article, as many of them by another name as in Wikipedia.
LINKS = 12
#: Sentences without a link per article.
SENTENCES = 16
_ALIASED = 0.35
_REDIRECTS_PER_TEN = 4
_DISAMBIGUATION_EVERY = 97

_HEADER = """\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>{name}</sitename>
    <dbname>{kb}wiki</dbname>
    <base>https://{kb}.example/wiki/Main_Page</base>
    <generator>MediaWiki 1.43.0</generator>
    <case>first-letter</case>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="1" case="first-letter">Talk</namespace>
      <namespace key="6" case="first-letter">File</namespace>
      <namespace key="10" case="first-letter">Template</namespace>
      <namespace key="14" case="first-letter">Category</namespace>
    </namespaces>
  </siteinfo>
"""
_PAGE = """\
  <page>
    <title>{title}</title>
    <ns>{ns}</ns>
    <id>{id}</id>
{redirect}    <revision>
      <id>{revision}</id>
      <timestamp>2024-01-01T00:00:00Z</timestamp>
      <contributor>
        <username>Writer</username>
        <id>{writer}</id>
      </contributor>
      <comment>/* History */ typo, see [[Talk:{title}]]</comment>
      <model>wikitext</model>
      <format>text/x-wiki</format>
      <text bytes="{size}" xml:space="preserve">{text}</text>
      <sha1>4ro7vvppa5kmm0o1egfjztzcwd0vabw</sha1>
    </revision>
  </page>
"""


def write_entities_jsonl(path: Path, entities: Iterable[Entity]) -> int:
    """Write one JSON object per entity; returns how many."""
    return _write(path, (_entity_record(entity) for entity in entities))


def write_documents_jsonl(path: Path, documents: Iterable[Document]) -> int:
    """Write one JSON object per document; returns how many."""
    return _write(path, (_document_record(document) for document in documents))


def _write(path: Path, records: Iterable[dict[str, object]]) -> int:
    count = 0
    encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for record in records:
            out.write(encode(record) + "\n")
            count += 1
    return count


def _entity_record(entity: Entity) -> dict[str, object]:
    return {
        "id": entity.key,
        "title": entity.title,
        "description": entity.description,
        "type": entity.type,
        "url": entity.url,
        "popularity": entity.popularity,
        "language": entity.language,
        "aliases": [
            {"surface": alias.surface, "kind": alias.kind, "count": alias.count}
            for alias in entity.aliases
        ],
        "xrefs": list(entity.xrefs),
    }


def _document_record(document: Document) -> dict[str, object]:
    return {
        "id": document.id,
        "text": document.text,
        "split": document.split,
        "entities": [
            {
                "start": mention.start,
                "end": mention.end,
                "text": mention.surface,
                "type": mention.type,
                "gold": None if mention.gold is None else [str(item) for item in mention.gold],
            }
            for mention in document.mentions
        ],
    }


def _initial(name: str) -> str:
    """A name with a capital initial, as the titles of most wikis have it."""
    upper = name[:1].upper()
    return upper + name[1:] if len(upper) == 1 else name


def _page(number: int, title: str, text: str, *, redirect: str = "") -> str:
    shown = f'    <redirect title="{escape(redirect)}" />\n' if redirect else ""
    return _PAGE.format(
        title=escape(title, quote=False),
        ns=0,
        id=number,
        redirect=shown,
        revision=10**9 + number,
        writer=number % 997 + 1,
        size=len(text.encode()),
        text=escape(text),
    )


class WrittenWiki(NamedTuple):
    """What was written."""

    articles: int
    redirects: int
    disambiguation: int
    links: int


class MediaWikiWriter:
    """Writes one KB of a world as an export."""

    def __init__(self, world: World, kb: str = "") -> None:
        self._world = world
        self._kb = kb or world.settings.kbs[0]
        self._number = world.kb_number(self._kb)
        self._count = world.settings.entities
        self._key = mix(mix(world.settings.seed) ^ 0x3E1)

    def write(self, out: TextIO) -> WrittenWiki:
        """Write the whole export."""
        out.write(_HEADER.format(name=escape(self._kb.capitalize()), kb=self._kb))
        written = WrittenWiki(0, 0, 0, 0)
        for index in range(self._count):
            pages, links = self._pages_of(index)
            out.writelines(pages)
            aside = index % _DISAMBIGUATION_EVERY == 0
            written = WrittenWiki(
                index + 1,
                written.redirects + len(pages) - 1 - aside,
                written.disambiguation + aside,
                written.links + links,
            )
        out.write("</mediawiki>\n")
        return written

    def title(self, index: int) -> str:
        """The title of an article: names that several entities share are told apart."""
        entity = self._world.entity(self._number, index)
        return f"{_initial(entity.title)} ({entity.key})"

    def _pages_of(self, index: int) -> tuple[list[str], int]:
        """The pages that an entity makes, its article first, and the links in that."""
        draws = Draws(mix(self._key ^ index))
        entity = self._world.entity(self._number, index)
        title = self.title(index)
        text, links = self._article(entity, title, index, draws)
        first_id = 10 * index + 10
        pages = [_page(first_id, title, text)]
        for place, alias in enumerate(entity.aliases[:2]):
            if draws.below(10) < _REDIRECTS_PER_TEN:
                name = f"{_initial(alias.surface)} ({entity.key}-{place})"
                redirect = f"#REDIRECT [[{title}]]\n{{{{R from other name}}}}"
                pages.append(_page(first_id + 1 + place, name, redirect, redirect=title))
        if index % _DISAMBIGUATION_EVERY == 0:
            name = f"{_initial(entity.title)} {entity.key} (disambiguation)"
            meanings = f"'''{entity.title}''' may mean:\n* [[{title}]], of {entity.type}\n"
            pages.append(_page(first_id + 5, name, meanings + "{{disambiguation}}"))
        return pages, links

    def _article(self, entity: Entity, title: str, index: int, draws: Draws) -> tuple[str, int]:
        links = [self._link(index, draws) for _ in range(LINKS)]
        head = (
            f"{{{{Short description|{entity.type}}}}}\n"
            f"{{{{Infobox {entity.type}\n| name = {entity.title}\n| image = {entity.key}.jpg\n"
            f"| seat = {links[0]}\n| note = {{{{convert|{index}|km|mi}}}}\n}}}}\n"
            f"[[File:{entity.key}.jpg|thumb|A view of {links[1]}]]\n"
        )
        lead = (
            f"'''{entity.title}'''<ref name=\"a\">{{{{cite book|title={title}|year=1999}}}}</ref> "
            f"is known. {entity.description} It lies near {links[2]} and {links[3]}.<!-- check -->"
            f" It is named after {links[4]}, and ''its people'' trade with {links[5]}.\n\n"
        )
        body = (
            f"== History ==\nThe {entity.type} was described by {links[6]} too.{{{{sfn|A|1}}}}\n\n"
            f'{{| class="wikitable"\n! Year !! Place\n|-\n| 1900 || {links[7]}\n|}}\n'
            f"* {links[8]}\n* {links[9]}, &amp; others&nbsp;there\n\n"
            f"{self._prose(draws)}\n"
            f"=== Later ===\nSince then, {links[10]} and {links[11]} have grown.\n"
            "== References ==\n<references />\n"
            f"[[Category:{entity.type.capitalize()}s]]\n"
        )
        return head + lead + body, LINKS

    def _prose(self, draws: Draws) -> str:
        """Sentences without links, of which most of an encyclopedia consists."""
        told, thing = self._world.facts.told_by, draws.bits()
        return " ".join(told(self._number, thing + n).description for n in range(SENTENCES))

    def _link(self, index: int, draws: Draws) -> str:
        """A link to an article that comes up as often as its popularity says."""
        slot = self._world.slot_of_rank(self._world.zipf.rank(draws))
        other = int(self._world.id_of(self._number, slot).key[1:]) - 1
        other = other if other != index else (index + 1) % self._count
        title, target = self.title(other), self._world.entity(self._number, other)
        if draws.chance(_ALIASED) and target.aliases:
            return f"[[{title}|{target.aliases[draws.below(len(target.aliases))].surface}]]"
        return f"[[{title}|{target.title}]]"


def write_mediawiki_xml(out: TextIO, world: World, kb: str = "") -> WrittenWiki:
    """Write a KB of a world as a MediaWiki XML export."""
    return MediaWikiWriter(world, kb).write(out)
