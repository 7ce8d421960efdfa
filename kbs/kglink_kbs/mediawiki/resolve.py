"""Joins links, redirects and pages by title, part by part: what lies between the two passes.

Titles are dealt to parts by their hash, and a part holds its own titles and all links to them, so
that no step holds more than one part in memory. A redirect's two titles lie in different parts:
it asks the part of its target where that leads, and is told, before links are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kglink_kbs.mediawiki.job import TEXT_PARTS, Plan
from kglink_kbs.mediawiki.spill import Sections, read_lines, write_sections

#: Redirects to redirects are followed this far; a circle ends here too.
TURNS = 3


class Place(NamedTuple):
    """Where an entity stands: the number of its chunk, its number in it, its key."""

    chunk: int
    number: int
    key: str


class PartResolver:
    """The steps for one part after the other, when all chunks have been read."""

    def __init__(self, plan: Plan, chunks: int, groups: int) -> None:
        self._plan = plan
        self._chunks = [plan.chunk(number) for number in range(chunks)]
        self._texts = [plan.texts(number) for number in range(chunks if plan.documents else 0)]
        self._groups = groups

    # ---------------------------------------------------------------------------- redirects
    def ask(self, part: int) -> None:
        """Ask for every redirect of the part where its target is."""
        plan = self._plan
        out = Sections(plan.parts)
        for title, target in self._redirects(part):
            out.add(plan.part_of(target), f"{target}\t{title}")
        write_sections(plan.asked(0, part), out.packed())

    def answer(self, turn: int, part: int) -> None:
        """Tell the redirects that asked this part; send those on that ask for a redirect."""
        plan = self._plan
        asked = list(read_lines((plan.asked(turn, n) for n in range(plan.parts)), part))
        pages = self._pages(part) if asked else {}
        redirects = dict(self._redirects(part)) if asked else {}
        answers, further = Sections(plan.parts), Sections(plan.parts)
        for target, title in asked:
            place = pages.get(target)
            if place is not None:
                answers.add(plan.part_of(title), "\t".join((title, *map(str, place))))
            elif target in redirects:
                on = redirects[target]
                further.add(plan.part_of(on), f"{on}\t{title}")
        write_sections(plan.answered(turn, part), answers.packed())
        write_sections(plan.asked(turn + 1, part), further.packed())

    # -------------------------------------------------------------------------------- links
    def join(self, part: int) -> None:
        """Count the links to the part's titles, by entity, for the group of each."""
        plan = self._plan
        pages = self._pages(part)
        redirects = self._answers(part)
        out = Sections(self._groups)
        for title, place in redirects.items():
            out.add(self._group(place.chunk), f"r\t{place.chunk}\t{place.number}\t{title}")
        places = redirects | pages
        anchors: dict[str, dict[str, int]] = {}
        for title, anchor, seen in read_lines(self._chunks, plan.links_section(part)):
            if title in places:
                counts = anchors.setdefault(title, {})
                counts[anchor] = counts.get(anchor, 0) + int(seen)
        for title, chunk, number, mention in read_lines(self._texts, TEXT_PARTS + part):
            if title in places:
                gold = places[title].key
                out.add(self._group(int(chunk)), f"m\t{chunk}\t{number}\t{mention}\t{gold}")
        for title, counts in anchors.items():
            place = places[title]
            head = f"a\t{place.chunk}\t{place.number}"
            group = self._group(place.chunk)
            for anchor, count in counts.items():
                out.add(group, f"{head}\t{anchor}\t{count}")
        write_sections(plan.joined(part), out.packed())

    def _group(self, chunk: int) -> int:
        return group_of(chunk, len(self._chunks), self._groups)

    def _titles(self, part: int) -> Iterator[list[str]]:
        return read_lines(self._chunks, self._plan.titles_section(part))

    def _redirects(self, part: int) -> Iterator[tuple[str, str]]:
        return ((line[0], line[1]) for line in self._titles(part) if len(line) == 2)

    def _pages(self, part: int) -> dict[str, Place]:
        pages: dict[str, Place] = {}
        for line in self._titles(part):
            if len(line) == 5:
                title, _, chunk, number, key = line
                pages.setdefault(title, Place(int(chunk), int(number), key))
        return pages

    def _answers(self, part: int) -> dict[str, Place]:
        plan = self._plan
        files: list[Path] = [
            plan.answered(turn, other) for turn in range(TURNS) for other in range(plan.parts)
        ]
        return {
            title: Place(int(chunk), int(number), key)
            for title, chunk, number, key in read_lines(files, part)
        }


def group_of(chunk: int, chunks: int, groups: int) -> int:
    """The group of chunks that are given out together."""
    return chunk * groups // chunks
