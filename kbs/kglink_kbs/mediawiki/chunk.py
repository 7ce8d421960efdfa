"""Reads one chunk of a dump into its spill file: the first of the two passes.

A chunk's file holds what stands in its pages: the entities, the documents that may be chosen, and
by part of all titles the titles themselves and the links to them, counted.
"""

from __future__ import annotations

import json
import re
from typing import Any

from kglink_kbs.mediawiki.job import DOCUMENTS, ENTITIES, PARTS, Plan
from kglink_kbs.mediawiki.kinds import PageKind, redirect_target, sort_page
from kglink_kbs.mediawiki.languages import CATEGORY, MAIN
from kglink_kbs.mediawiki.links import find_links, link_pattern
from kglink_kbs.mediawiki.lots import draw_lot
from kglink_kbs.mediawiki.pages import BadPage, RawPage, is_wikitext, read_pages
from kglink_kbs.mediawiki.regions import without_opaque
from kglink_kbs.mediawiki.sentences import first_sentences
from kglink_kbs.mediawiki.spill import Sections, write_sections
from kglink_kbs.mediawiki.titles import Titles
from kglink_kbs.mediawiki.wikitext import prose

#: A description needs no more of a lead than this, whatever stands before it.
_LONGEST_LEAD = 50_000
_SHORT_LEAD = 20_000
_ID = re.compile(r"[0-9]{1,18}")


class ChunkReader:
    """Reads chunks by one plan; one for each process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        kept = set(plan.namespaces) | ({CATEGORY} if plan.categories else set())
        self.kept = frozenset(kept)
        self.titles = Titles(plan.site, kept, plan.interwiki)
        self.pattern = link_pattern(plan.language)

    def read(
        self, number: int, piece: bytes, label: str, offset: int, bound: int
    ) -> dict[str, Any]:
        """Write the file of chunk ``number``; returns what there is to tell about it.

        A document is written if its lot is below ``bound``: only then can it still be chosen.
        """
        chunk = _Chunk(self, number, label, bound)
        for page in read_pages(piece, offset, label, self.plan.max_page_bytes):
            if isinstance(page, BadPage):
                chunk.bad(page)
            else:
                chunk.take(page)
        about = chunk.about()
        sections = chunk.sections()
        sections[0] = json.dumps(about).encode()
        write_sections(self.plan.chunk(number), sections)
        return about


class _Chunk:
    """What has been read of one chunk."""

    def __init__(self, reader: ChunkReader, number: int, label: str, bound: int) -> None:
        self._reader = reader
        self._plan = reader.plan
        self._number = number
        self._label = label
        self._bound = bound
        self._out = Sections(PARTS + 2 * self._plan.parts)
        self._links: dict[tuple[str, str], int] = {}
        self._bad: list[BadPage] = []
        self._left_out: dict[str, int] = {}
        self._lots: list[int] = []
        self._entities = 0

    def bad(self, page: BadPage) -> None:
        """Keep what is wrong with a page."""
        self._bad.append(page)

    def take(self, page: RawPage) -> None:
        """Read one page."""
        ns, title = self._reader.titles.page(page.title)
        if page.ns.lstrip("-").isdecimal():
            ns = int(page.ns)
            title = page.title if ns == MAIN else title
        if ns not in self._reader.kept:
            return
        if not _ID.fullmatch(page.id) or not page.title:
            self._incomplete(page)
            return
        target = page.redirect or redirect_target(page.text)
        if target:
            self._redirect(title, target)
        elif is_wikitext(page):
            self._article(page, ns, title)
        else:
            self._leave_out("page that is no wikitext")

    def about(self) -> dict[str, Any]:
        """What the process that leads wants to know."""
        return {
            "bad": [list(page) for page in self._bad],
            "left_out": self._left_out,
            "lots": self._lots,
        }

    def sections(self) -> list[bytes]:
        """All sections of the chunk's file; the first is for what `about` says."""
        plan = self._plan
        for (title, anchor), count in self._links.items():
            line = f"{title}\t{anchor}\t{count}"
            self._out.add(plan.links_section(plan.part_of(title)), line)
        return self._out.packed()

    def _redirect(self, title: str, target: str) -> None:
        kind, to = self._reader.titles.target(target)
        self._leave_out("redirect")
        if kind == "article" and to != title:
            part = self._plan.part_of(title)
            self._out.add(self._plan.titles_section(part), f"{title}\t{to}")

    def _article(self, page: RawPage, ns: int, title: str) -> None:
        text = without_opaque(page.text)
        links = self._links
        for link in find_links(text, self._reader.titles, self._reader.pattern):
            links[link] = links.get(link, 0) + 1
        end = text.find("\n==")
        lead = text[:end] if end >= 0 else text
        kind, type_ = sort_page(title, ns, text, lead)
        if not self._keeps(kind):
            self._leave_out(f"{kind} page")
            return
        self._entity(page, title, type_, text, lead)

    def _keeps(self, kind: PageKind) -> bool:
        plan = self._plan
        wanted = {
            "article": True,
            "disambiguation": plan.disambiguation,
            "list": plan.lists,
            "category": plan.categories or CATEGORY in plan.namespaces,
        }
        return wanted[kind]

    def _entity(self, page: RawPage, title: str, type_: str, text: str, lead: str) -> None:
        plan, number = self._plan, self._entities
        self._entities += 1
        row = json.dumps(
            [page.id, title, self._description(text, lead), type_, plan.site.url(title)]
        )
        self._out.add(ENTITIES, row)
        place = f"{title}\t\t{self._number}\t{number}\t{page.id}"
        self._out.add(plan.titles_section(plan.part_of(title)), place)
        if plan.documents and (lot := draw_lot(plan.seed, page.id)) < self._bound:
            self._lots.append(lot)
            self._out.add(DOCUMENTS, json.dumps([number, lot, text]))

    def _description(self, text: str, lead: str) -> str:
        plan = self._plan
        if not plan.sentences:
            return ""
        words = self._clean(lead[:_LONGEST_LEAD])
        if not words and len(lead) < len(text):
            words = self._clean(text[:_SHORT_LEAD])
        return " ".join(first_sentences(words, plan.sentences).split("\n"))

    def _clean(self, text: str) -> str:
        return prose(text, self._reader.titles, self._plan.language)

    def _incomplete(self, page: RawPage) -> None:
        missing = (
            "without a title" if not page.title else f"whose id is {page.id[:40]!r}, no number"
        )
        where = f"{self._label}, page {page.title or page.id!r}"
        self._bad.append(BadPage(f"a page {missing}", where, "An export names both."))

    def _leave_out(self, what: str) -> None:
        self._left_out[what] = self._left_out.get(what, 0) + 1
