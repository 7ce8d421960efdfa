"""The first pass: reads each chunk of a dump into a file.

The file holds the entities, the documents that may be chosen, and for each part of all titles the
titles, the counted links to them, and the links of documents.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import blake2b
from heapq import heappush, heappushpop
from typing import Any

from kglink.text.sentences import first_sentences
from kglink_kbs.mediawiki.kinds import (
    TypeSigns,
    category_pattern,
    description_of,
    redirect_target,
    sort_page,
)
from kglink_kbs.mediawiki.languages import CATEGORY, MAIN
from kglink_kbs.mediawiki.pages import BadPage, RawPage, read_pages
from kglink_kbs.mediawiki.plan import ABOUT, DOCUMENTS, ENTITIES, PARTS, Plan, Sections
from kglink_kbs.mediawiki.site import Titles, pages_above, tails_of
from kglink_kbs.mediawiki.wikitext import (
    clean_prepared,
    find_links,
    link_pattern,
    prepared,
    prose,
)

#: Lots are numbers of this number of bits; the chosen documents are those with the smallest.
LOT_BITS = 48


def draw_lot(seed: int, key: str) -> int:
    """The lot of a page: the same for the same seed, whatever else the dump holds."""
    digest = blake2b(f"{seed}:{key}".encode(), digest_size=LOT_BITS // 8)
    return int.from_bytes(digest.digest(), "big")


class Lottery:
    """Keeps the smallest lots of those that were drawn."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._kept: list[int] = []
        """A heap of the lots below zero: first comes the largest that is kept."""

    def add(self, lots: Iterable[int]) -> None:
        """Take in the lots of some documents."""
        for lot in lots if self._wanted else ():
            if len(self._kept) < self._wanted:
                heappush(self._kept, -lot)
            else:
                heappushpop(self._kept, -lot)

    @property
    def largest(self) -> int:
        """The largest lot that is chosen, when all are known; -1 for none."""
        return -self._kept[0] if self._kept else -1

    @property
    def bound(self) -> int:
        """Lots from this one on are too large to be chosen."""
        return self.largest + 1 if len(self._kept) == self._wanted else 1 << LOT_BITS


#: Letters of a subpage's description that its page gets.
_MOST_OF_SUBPAGE = 4000
_ID = re.compile(r"[0-9]{1,18}")


class ChunkReader:
    """Reads chunks by one plan; one for each process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        kept = {*plan.settings.namespaces, *([CATEGORY] if plan.settings.categories else ())}
        self.kept = frozenset(kept)
        self.titles = Titles(plan.site, kept, plan.settings.interwiki)
        self.pattern = link_pattern(plan.settings.language)
        self.categories = category_pattern(plan.site)
        self.prose = partial(prose, titles=self.titles, language=plan.settings.language)
        self.wanted = {
            "article": True,
            "disambiguation": plan.settings.disambiguation,
            "list": plan.settings.lists,
            "category": plan.settings.categories or CATEGORY in plan.settings.namespaces,
        }

    def read(self, job: Mapping[str, Any], data: bytes) -> list[bytes]:
        """The sections of the file of a chunk of pages.

        A document is in it if its lot is below the ``bound``: only then can it still be chosen.
        """
        chunk, label = _Chunk(self, job["chunk"], job["label"], job["bound"]), job["label"]
        for page in read_pages(data, job["offset"], label, self.plan.max_page_bytes):
            if isinstance(page, BadPage):
                chunk.bad.append(page)
            else:
                chunk.take(page)
        return chunk.sections()


class _Chunk:
    """What has been read of one chunk."""

    def __init__(self, reader: ChunkReader, number: int, label: str, bound: int) -> None:
        self._reader = reader
        self._plan = reader.plan
        self._number = number
        self._label = label
        self._bound = bound
        self._out = Sections(PARTS + 3 * self._plan.parts)
        self._links: Counter[tuple[str, str]] = Counter()
        self.bad: list[BadPage] = []
        self._left_out: Counter[str] = Counter()
        self._lots: list[int] = []
        self._entities = 0
        self._elsewhere = 0
        self._signs = TypeSigns()
        self._tails: Counter[str] = Counter()

    def take(self, page: RawPage) -> None:
        """Read one page."""
        ns, title = self._reader.titles.page(page.title)
        if re.fullmatch(r"-?[0-9]{1,6}", page.ns):
            ns = int(page.ns)
            title = page.title if ns == MAIN else title
        if ns not in self._reader.kept:
            self._elsewhere += 1
            return
        if not _ID.fullmatch(page.id) or not page.title:
            missing = (
                "without a title" if not page.title else f"whose id is {page.id[:40]!r}, no number"
            )
            where = f"{self._label}, page {page.title or page.id!r}"
            self.bad.append(BadPage(f"a page {missing}", where, "An export names both."))
            return
        target = page.redirect or redirect_target(page.text)
        if target:
            kind, to = self._reader.titles.target(target)
            self._left_out["redirect"] += 1
            if kind == "article" and to != title:
                part = self._plan.part_of(title)
                self._out.add(self._plan.titles_section(part), f"{title}\t{to}")
        elif page.model in ("", "wikitext"):  # others are style sheets and programs
            self._article(page, ns, title)
        else:
            self._left_out["page that is no wikitext"] += 1

    def sections(self) -> list[bytes]:
        """The sections of the chunk's file; the first tells what was found."""
        plan = self._plan
        for (title, anchor), count in self._links.items():
            line = f"{title}\t{anchor}\t{count}"
            self._out.add(plan.links_section(plan.part_of(title)), line)
        about = {
            "bad": [list(page) for page in self.bad],
            "left_out": self._left_out,
            "lots": self._lots,
            "elsewhere": self._elsewhere,
            "tails": self._tails,
            **vars(self._signs),
        }
        sections = self._out.packed()
        sections[ABOUT] = json.dumps(about).encode()
        return sections

    def _article(self, page: RawPage, ns: int, title: str) -> None:
        text = prepared(page.text)
        self._links.update(find_links(text, self._reader.titles, self._reader.pattern))
        end = text.find("\n==")
        lead = text[:end] if end >= 0 else text
        kind, type_ = sort_page(title, ns, text, lead)
        if not self._reader.wanted[kind]:
            self._left_out[f"{kind} page"] += 1
            return
        plan, number = self._plan, self._entities
        self._entities += 1
        may_be_part = plan.settings.subpages != "own" and bool(pages_above(title))
        described = ""
        if plan.settings.sentences:
            words = description_of(title, text, lead, self._reader.prose)
            described = " ".join(first_sentences(words, plan.settings.sentences).split("\n"))
        signs = self._signs.of(type_, text, lead, self._reader.categories, count=not may_be_part)
        url = plan.site.url(title)
        self._out.add(ENTITIES, json.dumps([page.id, title, described, type_, url, *signs]))
        place = f"{title}\t\t{self._number}\t{number}\t{page.id}"
        if may_be_part:
            place = "\t".join((place, described[:_MOST_OF_SUBPAGE]))
            self._tails[tails_of(title)[-1]] += 1
        self._out.add(plan.titles_section(plan.part_of(title)), place)
        if not may_be_part and (lot := draw_lot(plan.settings.seed, page.id)) < self._bound:
            self._lots.append(lot)
            clean = clean_prepared(text, self._reader.titles, plan.settings.language)
            spans = [[link.start, link.end] for link in clean.links]
            self._out.add(DOCUMENTS, json.dumps([number, lot, clean.text, spans]))
            for mention, link in enumerate(clean.links):
                line = f"{link.title}\t{self._number}\t{number}\t{mention}"
                self._out.add(plan.mentions_section(plan.part_of(link.title)), line)
