"""Linked documents as one web page that needs nothing but itself: see page.html, .css, .js."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from string import Template
from tempfile import SpooledTemporaryFile
from typing import TextIO

from pydantic import Field

from kglink.plugins import PluginSettings
from kglink.records import Candidate, EntityId, Link, LinkedDocument, json_number, json_value
from kglink.shown import (
    COLOURS,
    NIL_COLOUR,
    UNDERLINES,
    escaped,
    for_page,
    linked_name,
    overlapping,
    percent,
    web_address,
)
from kglink.text.printable import printable_json
from kglink_plugins.exporters.summary import Tally, counted, notes, page_json

# Documents wait in memory up to this size, then on disk, until the legend's counts are known.
MEMORY_LIMIT = 16 * 1024 * 1024


class HtmlSettings(PluginSettings):
    """What the page shows."""

    title: str = "Linked text"
    """The heading of the page."""
    explain: bool = False
    """Show the evidence of each candidate."""
    rejected: bool = False
    """Show what was not linked, and why (`link.rejected`)."""
    description_limit: int = Field(400, ge=0)
    """How many characters of an entity's description the page keeps."""


class HtmlExporter:
    """Writes all documents as one self-contained web page."""

    def __init__(self, settings: HtmlSettings) -> None:
        self._settings = settings

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write the page once the last document is known: its legend stands first."""
        body = _Body(self._settings)
        with SpooledTemporaryFile(MEMORY_LIMIT, "w+", encoding="utf-8", newline="") as parts:
            for document in documents:
                parts.writelines(body.article(document))
            parts.seek(0)
            head, tail = _frame(self._settings, body)
            out.write(head)
            shutil.copyfileobj(parts, out)
        out.write(tail)
        out.flush()


@dataclass
class _Body:
    """Renders documents and keeps what the rest of the page must know about them."""

    settings: HtmlSettings
    tally: Tally = field(default_factory=Tally)
    headings: list[tuple[str, int]] = field(default_factory=list)
    """The name of each document, and how many mentions it has."""
    kbs: dict[str, int] = field(default_factory=dict)
    entities: dict[EntityId, int] = field(default_factory=dict)
    entity_data: list[object] = field(default_factory=list)

    def article(self, document: LinkedDocument) -> Iterator[str]:
        """The HTML of one document, in pieces."""
        count = Tally()
        count.add(document)
        self.tally.add(document)
        page = len(self.headings) + 1
        name = document.id or f"document {page}"
        self.headings.append((name, len(document.links)))
        links = document.in_order
        numbers = {id(link): number for number, link in enumerate(links)}
        yield f'<article id="d{page}" aria-labelledby="d{page}-name">\n<header>'
        yield f'<h2 id="d{page}-name">{escaped(name)}</h2><p>{count}</p></header>\n'
        yield from (f'<p class="note">{escaped(note)}</p>\n' for note in notes(document.meta))
        # The HTML parser drops one line break right after a tag of <pre>, not after a <div>.
        yield '<div class="text" dir="auto">'
        position = 0
        for link, *inner in overlapping(links):  # what begins in a mark gets a place beside it
            yield escaped(document.text[position : link.start])
            shown = escaped(document.text[link.start : link.end])
            yield f"<span {self._attributes(link, page, numbers[id(link)])}>{shown}</span>"
            for one in inner:
                yield f"<span {self._attributes(one, page, numbers[id(one)], 'm inner')}"
                yield f' data-text="{escaped(one.surface)}"></span>'
            position = link.end
        yield f"{escaped(document.text[position:])}</div>\n"
        yield from self._list(links, page)
        if self.settings.rejected:
            places = counted(len(document.rejected), "place")
            yield f'<details class="list rejected"><summary>{places} not linked</summary>\n'
            yield "<table><thead><tr><th>place</th><th>why</th></tr></thead>\n<tbody>\n"
            for place in document.rejected:
                yield f"<tr><td>{escaped(place.surface)}</td><td>{escaped(place.why)}</td></tr>\n"
            yield "</tbody>\n</table></details>\n"
        if document.meta:
            rows = "".join(
                f"<dt>{escaped(str(key))}</dt><dd>{escaped(shown)}</dd>"
                for key, value in document.meta.items()
                for shown in [
                    value if isinstance(value, str) else printable_json(json_value(value))
                ]
            )
            yield f"<details><summary>How it was linked</summary>\n<dl>{rows}</dl></details>\n"
        data = [self._link_data(link) for link in links]
        yield f'<script type="application/json">{page_json(data)}</script>\n</article>\n'

    # ------------------------------------------------------------------------- the text
    def _attributes(self, link: Link, page: int, index: int, kind: str = "m") -> str:
        kb = link.chosen.id.kb if link.chosen else "NIL"
        cluster = f", {link.cluster}" if link.cluster else ""
        answer = str(link.chosen.id) if link.chosen else f"no entity (NIL{cluster})"
        label = f"{link.surface}: {answer}, {percent(link.confidence)} sure"
        return (
            f'class="{kind} {self._kb_class(link.chosen)}" id="m{page}-{index}" role="button"'
            f' tabindex="0" aria-haspopup="dialog" aria-expanded="false" data-i="{index}"'
            f' data-kb="{escaped(kb)}" aria-label="{escaped(label)}"'
        )

    def _kb_class(self, candidate: Candidate | None) -> str:
        return _kb_class(self._kb(candidate.id.kb)) if candidate else "nil"

    # -------------------------------------------------------------------- the list below
    def _list(self, links: list[Link], page: int) -> Iterator[str]:
        if not links:
            return
        yield '<details class="list"><summary>All mentions as a list</summary>\n<table>'
        yield "<thead><tr><th>mention</th><th>entity</th><th>confidence</th><th>also</th></tr>"
        yield "</thead>\n<tbody>\n"
        for index, link in enumerate(links):
            chosen = link.chosen
            answer = _entity(chosen) or escaped(f"NIL {link.cluster}".strip())
            also = ", ".join(escaped(str(entity)) for entity in chosen.also) if chosen else ""
            yield (
                f'<tr class="{self._kb_class(chosen)}">'
                f'<td><a href="#m{page}-{index}">{escaped(link.surface)}</a></td>'
                f"<td>{answer}</td>"
                f"<td>{percent(link.confidence)}</td><td>{also}</td></tr>\n"
            )
            for one in link.per_kb:
                yield (
                    f'<tr class="{self._kb_class(one.chosen)}"><td>in {escaped(one.kb)}</td>'
                    f"<td>{_entity(one.chosen) or 'NIL'}</td>"
                    f"<td>{percent(one.confidence)}</td><td></td></tr>\n"
                )
        yield "</tbody>\n</table></details>\n"

    # ---------------------------------------------------------------- what the cards show
    def _link_data(self, link: Link) -> dict[str, object]:
        chosen = self._entity(link.chosen) if link.chosen else None
        return {
            "sure": json_number(link.confidence),
            "chosen": chosen,
            **({"cluster": for_page(link.cluster)} if link.cluster else {}),
            "per_kb": [
                [
                    self._kb(one.kb),
                    self._entity(one.chosen) if one.chosen else None,
                    json_number(one.confidence),
                ]
                for one in link.per_kb
            ],
            "candidates": [self._candidate_data(item) for item in link.candidates],
        }

    def _candidate_data(self, item: Candidate) -> dict[str, object]:
        data: dict[str, object] = {"entity": self._entity(item), "score": json_number(item.score)}
        if item.also:
            data["also"] = [[self._kb(entity.kb), for_page(str(entity))] for entity in item.also]
        if self.settings.explain:
            data["evidence"] = json_value(item.evidence)
            data["parts"] = json_value(item.parts)
        return data

    def _entity(self, candidate: Candidate) -> int:
        """The place of an entity in the page's table; what was seen first is shown."""
        place = self.entities.setdefault(candidate.id, len(self.entities))
        if place == len(self.entity_data):
            limit, description = self.settings.description_limit, candidate.description
            if len(description) > limit:
                description = f"{description[:limit].rstrip()} …"
            self.entity_data.append(
                {
                    "kb": self._kb(candidate.id.kb),
                    "id": for_page(str(candidate.id)),
                    "title": for_page(candidate.title),
                    "type": for_page(candidate.type),
                    "url": web_address(candidate.url),
                    "description": for_page(description),
                }
            )
        return place

    def _kb(self, name: str) -> int:
        return self.kbs.setdefault(name, len(self.kbs))


def _frame(settings: HtmlSettings, body: _Body) -> tuple[str, str]:
    """What stands before and after the documents."""
    style, script = page_style(), _part("page.js")
    values = {
        "title": escaped(settings.title),
        "style": style,
        "style_hash": _csp_hash(style),
        "script": script,
        "script_hash": _csp_hash(script),
        "totals": f"{body.tally} in {counted(body.tally.documents, 'document')}",
        "legend": _legend(body),
        "contents": _contents(body.headings),
    }
    head, tail = _part("page.html").split("$documents")
    data = {"kbs": [for_page(name) for name in body.kbs], "entities": body.entity_data}
    return (
        Template(head).substitute(values),
        Template(tail).substitute(values | {"data": page_json(data)}),
    )


def _legend(body: _Body) -> str:
    items = [(name, _kb_class(index), body.tally.per_kb[name]) for name, index in body.kbs.items()]
    if body.tally.nil:
        items.append(("NIL", "nil", body.tally.nil))
    return "\n".join(
        f'<li><label><input type="checkbox" checked data-shows="{mark.split()[0]}">'
        f'<span class="m {mark}">{escaped(name)}</span> <small>{count:,}</small></label></li>'
        for name, mark, count in items
    )


def _contents(headings: list[tuple[str, int]]) -> str:
    if len(headings) < 2:
        return ""
    items = "\n".join(
        f'<li><a href="#d{page}">{escaped(name)}</a> <small>{mentions:,}</small></li>'
        for page, (name, mentions) in enumerate(headings, 1)
    )
    return (
        f"<details><summary>{counted(len(headings), 'document')}</summary>\n"
        f"<ol>\n{items}\n</ol></details>"
    )


def _entity(candidate: Candidate | None) -> str:
    return linked_name(str(candidate.id), candidate.url) if candidate else ""


def _kb_class(index: int) -> str:
    return f"kb{index} c{index % len(COLOURS)} u{index % len(UNDERLINES)}"


def page_style() -> str:
    """The style of the page, with the colours and underlines that KBs have everywhere."""
    colours = "".join(f"--c{at}: {colour}; " for at, colour in enumerate(COLOURS))
    lines = " ".join(f".u{at} {{ --under: {line} }}" for at, line in enumerate(UNDERLINES))
    style = _part("page.css").replace("/* colours */", f"{colours}--nil: {NIL_COLOUR}")
    return style.replace("/* underlines */", lines)


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
