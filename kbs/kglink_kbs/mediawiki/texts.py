"""Cleans the texts that the lot fell on: a step between the passes.

Which texts these are is known when all pages have been read. To clean each that could still be
chosen would be twice the work, and more on a larger wiki.
"""

from __future__ import annotations

import json

from kglink_kbs.mediawiki.job import DOCUMENTS, TEXT_PARTS, TEXTS, Plan
from kglink_kbs.mediawiki.spill import Sections, json_rows, read_section, write_sections
from kglink_kbs.mediawiki.titles import Titles
from kglink_kbs.mediawiki.wikitext import clean_prepared


class TextCleaner:
    """Cleans the documents of chunks by one plan."""

    def __init__(self, plan: Plan, titles: Titles) -> None:
        self._plan = plan
        self._titles = titles

    def clean(self, chunk: int, largest_lot: int) -> None:
        """Write the documents of a chunk whose lots are no larger, and the links in them."""
        out = Sections(TEXT_PARTS + self._plan.parts)
        for number, lot, text in json_rows(read_section(self._plan.chunk(chunk), DOCUMENTS)):
            if lot <= largest_lot:
                self._clean(chunk, number, text, out)
        write_sections(self._plan.texts(chunk), out.packed())

    def _clean(self, chunk: int, number: int, text: str, out: Sections) -> None:
        plan = self._plan
        clean = clean_prepared(text, self._titles, plan.language)
        spans = [[link.start, link.end] for link in clean.links]
        out.add(TEXTS, json.dumps([number, clean.text, spans]))
        for place, link in enumerate(clean.links):
            line = f"{link.title}\t{chunk}\t{number}\t{place}"
            out.add(TEXT_PARTS + plan.part_of(link.title), line)
