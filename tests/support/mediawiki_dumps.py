"""Small exports for the tests, and what must be read from them by a plain reading."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET  # our own files: nothing in them is hostile
from collections import Counter
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from kglink.plugins import KBAdapter
from kglink.records import Document, Entity, Record
from kglink.sources import Problems, Source, SourceLimits
from kglink_kbs.mediawiki.settings import MediaWikiSettings
from kglink_kbs.mediawiki.wikis import make

HEADER = """\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Testpedia</sitename>
    <dbname>testwiki</dbname>
    <base>{base}</base>
    <generator>MediaWiki 1.43.0</generator>
    <case>first-letter</case>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="1" case="first-letter">Talk</namespace>
      <namespace key="6" case="first-letter">File</namespace>
      <namespace key="14" case="first-letter">Category</namespace>
    </namespaces>
  </siteinfo>
"""
WIKIPEDIA = "https://en.wikipedia.org/wiki/Main_Page"


def page(number: int | str, title: str, text: str, *, ns: int = 0, redirect: str = "") -> str:
    """One page of an export."""
    shown = f'<redirect title="{escape(redirect)}" />' if redirect else ""
    return (
        f"  <page>\n    <title>{escape(title)}</title>\n    <ns>{ns}</ns>\n    <id>{number}</id>\n"
        f"    {shown}\n    <revision>\n      <id>7</id>\n"
        f"      <contributor><username>W</username><id>9</id></contributor>\n"
        f'      <model>wikitext</model>\n      <text xml:space="preserve">{escape(text)}</text>\n'
        "    </revision>\n  </page>\n"
    )


def export(*pages: str, base: str = WIKIPEDIA) -> str:
    """A whole export."""
    return HEADER.format(base=base) + "".join(pages) + "</mediawiki>\n"


class Counted(NamedTuple):
    """What a plain reading of a whole dump finds."""

    redirects: dict[str, set[str]]
    anchors: dict[str, Counter[str]]
    incoming: Counter[str]


_LINK = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]]+))?\]\]([a-z]*)")


def count_plainly(dump: Path) -> Counted:
    """Titles, redirects and links with one dictionary each, for texts without traps."""
    keys: dict[str, str] = {}
    leads_to: dict[str, str] = {}
    texts: list[str] = []
    for node in ET.parse(dump).getroot().iter():  # noqa: S314 - our own file
        if not node.tag.endswith("}page"):
            continue
        part = {child.tag.rpartition("}")[2]: child for child in node.iter()}
        title = part["title"].text or ""
        if "redirect" in part:
            leads_to[title] = part["redirect"].attrib["title"]
            continue
        texts.append(part["text"].text or "")
        if not title.endswith("(disambiguation)"):
            own_id = next(child for child in node if child.tag.endswith("}id"))
            keys[title] = own_id.text or ""
    found = Counted({}, {}, Counter())
    for title, target in leads_to.items():
        if target in keys:
            found.redirects.setdefault(keys[target], set()).add(title)
    for target, anchor in _links(texts):
        key = keys.get(target) or keys.get(leads_to.get(target, ""))
        if key:
            found.anchors.setdefault(key, Counter())[anchor] += 1
            found.incoming[key] += 1
    return found


def _links(texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in texts:
        for target, label, trail in _LINK.findall(text):
            if not target.startswith(("File:", "Category:")):
                yield target, (label or target) + trail


def adapter(**given_settings: Any) -> KBAdapter:
    """The adapter under test."""
    return make(MediaWikiSettings.model_validate(given_settings))


def read(
    data: str | bytes | Path, problems: Problems | None = None, **given_settings: Any
) -> list[Record]:
    """All records of a dump."""
    with opened(data) as source:
        return list(adapter(**given_settings).read(source, problems or Problems()))


def opened(data: str | bytes | Path, limits: SourceLimits | None = None) -> Source:
    """A dump as a source."""
    if isinstance(data, Path):
        return Source.open_path(data, limits=limits)
    raw = data.encode() if isinstance(data, str) else data
    return Source.from_bytes(raw, name="dump.xml", limits=limits)


def entities(records: list[Record]) -> dict[str, Entity]:
    """The entities by key."""
    return {record.key: record for record in records if isinstance(record, Entity)}


def documents(records: list[Record]) -> dict[str, Document]:
    """The documents by id."""
    return {record.id: record for record in records if isinstance(record, Document)}


LANTERN = """\
{{Short description|Device that gives light}}
{{Infobox lamp
| name = Lantern | part = [[Candle|candles]]
}}
[[File:Lantern.jpg|thumb|A lantern by [[Ada]]]]
A '''lantern''' ({{IPA|x}}) gives [[light]].<ref>[[Candle]]</ref> It holds a [[Candle|flame]].

== History ==
It was made by [[Ada L.|Ada]].
"""
SAMPLE = export(
    page(1, "Lantern", LANTERN),
    page(2, "Lamp (device)", "#REDIRECT [[Lantern]]", redirect="Lantern"),
    page(
        3,
        "Ada",
        "'''Ada''' lit the [[Lamp (device)|lamp]] and the [[lantern]]s; see [[List of lamps]].",
    ),
    page(4, "Ada L.", "#REDIRECT [[Ada (x)]]", redirect="Ada (x)"),
    page(5, "Ada (x)", "#REDIRECT [[Ada]]", redirect="Ada"),
    page(6, "Light (disambiguation)", "* [[Lantern|the light]]\n{{disambiguation}}"),
    page(7, "List of lamps", "* [[Lantern]]"),
    page(8, "Talk:Ada", "[[Ada|her]]", ns=1),
    page(9, "Category:Lamps", "[[Lantern|a lamp]]", ns=14),
    page(10, "Candle", ""),
)
