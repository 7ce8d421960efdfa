"""After the first pass: joins links, redirects and pages by title, then gives the records out.

Titles are dealt to parts by their hash, and a part holds its own titles and all links to them, so
that no step holds more than one part in memory. A redirect's two titles lie in different parts:
it asks the part of its target where that leads, and is told, before links are counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kglink.records import Alias, Document, Entity, EntityId, Mention, Record
from kglink_kbs.mediawiki.kinds import TypeNames
from kglink_kbs.mediawiki.plan import (
    DOCUMENTS,
    ENTITIES,
    Plan,
    Sections,
    json_rows,
    read_lines,
    read_section,
    write_sections,
)
from kglink_kbs.mediawiki.site import pages_above, pages_it_may_be_part_of
from kglink_kbs.mediawiki.wikitext import is_name

#: Redirects to redirects are followed this far; a circle ends here too.
TURNS = 3


class Place(NamedTuple):
    """Where an entity stands: the number of its chunk, its number in it, its key."""

    chunk: int
    number: int
    key: str
    described: str | None = None
    """The description in a page that may be part of another; None for other pages."""


class PartResolver:
    """The steps for one part after the other, when all chunks have been read."""

    def __init__(self, plan: Plan, chunks: int, groups: int) -> None:
        self._plan = plan
        self._chunks = [plan.chunk(number) for number in range(chunks)]
        self._groups = groups

    # ---------------------------------------------------------------------------- redirects
    def ask(self, part: int) -> None:
        """Ask where the targets of the part's redirects are, and which page owns each subpage."""
        plan = self._plan
        out = Sections(plan.parts)
        for title, target in self._redirects(part):
            out.add(plan.part_of(target), f"{target}\t{title}\t")
        tails = set(
            json.loads(read_section(plan.tails(), 0)) if plan.settings.subpages == "auto" else ()
        )
        for title in self._pages(part) if plan.settings.subpages == "part" or tails else ():
            above = pages_it_may_be_part_of(title, tails) if tails else pages_above(title)
            for rank, one in enumerate(above):
                out.add(plan.part_of(one), f"{one}\t{title}\t{rank:03}")
        write_sections(plan.asked(0, part), out.packed())

    def answer(self, turn: int, part: int) -> None:
        """Tell what asked this part; redirects to redirects ask on, those to subpages are lost."""
        plan = self._plan
        asked = list(read_lines((plan.asked(turn, n) for n in range(plan.parts)), part))
        pages = self._pages(part) if asked else {}
        redirects = dict(self._redirects(part)) if asked else {}
        parts = self._owners(part) if asked and turn else {}
        answers, further = Sections(plan.parts), Sections(plan.parts)
        for target, title, rank in asked:
            place = pages.get(target)
            if place is None:
                if target in redirects and not rank:  # a redirect has no parts
                    on = redirects[target]
                    further.add(plan.part_of(on), f"{on}\t{title}\t")
            elif place.described is not None and not rank and not turn:
                further.add(part, f"{target}\t{title}\t")  # whether it is one is not known yet
            elif rank or target not in parts:
                answers.add(plan.part_of(title), "\t".join((title, *map(str, place[:3]), rank)))
        write_sections(plan.answered(turn, part), answers.packed())
        write_sections(plan.asked(turn + 1, part), further.packed())

    # -------------------------------------------------------------------------------- links
    def join(self, part: int) -> None:
        """Count the links to the part's titles, by entity, for the group of each."""
        plan = self._plan
        pages = self._pages(part)
        redirects = {title: place for title, rank, place in self._answers(part, TURNS) if not rank}
        out = Sections(self._groups)
        for title, owner in self._owners(part).items():
            page = pages.pop(title)  # a part of its owner, whose description it may give
            out.add(self._group(page.chunk), f"s\t{page.chunk}\t{page.number}")
            if page.described:
                line = f"d\t{owner.chunk}\t{owner.number}\t{page.described}"
                out.add(self._group(owner.chunk), line)
        for title, place in redirects.items():
            out.add(self._group(place.chunk), f"r\t{place.chunk}\t{place.number}\t{title}")
        places = redirects | pages
        anchors: dict[str, dict[str, int]] = {}
        for title, anchor, seen in read_lines(self._chunks, plan.links_section(part)):
            if title in places:
                counts = anchors.setdefault(title, {})
                counts[anchor] = counts.get(anchor, 0) + int(seen)
        for title, chunk, number, mention in read_lines(self._chunks, plan.mentions_section(part)):
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

    def _redirects(self, part: int) -> Iterator[tuple[str, str]]:
        lines = read_lines(self._chunks, self._plan.titles_section(part))
        return ((line[0], line[1]) for line in lines if len(line) == 2)

    def _pages(self, part: int) -> dict[str, Place]:
        pages: dict[str, Place] = {}
        for line in read_lines(self._chunks, self._plan.titles_section(part)):
            if len(line) > 2:
                title, _, chunk, number, *rest = line
                pages.setdefault(title, Place(int(chunk), int(number), *rest))
        return pages

    def _owners(self, part: int) -> dict[str, Place]:
        """The pages that the part's subpages belong to, as the first turn has told them."""
        answers = sorted(self._answers(part, 1), reverse=True)  # what counts most comes last
        return {title: place for title, rank, place in answers if rank}

    def _answers(self, part: int, turns: int) -> Iterator[tuple[str, str, Place]]:
        at, parts = self._plan.answered, range(self._plan.parts)
        files = (at(turn, other) for turn in range(turns) for other in parts)
        for title, chunk, number, key, rank in read_lines(files, part):
            yield title, rank, Place(int(chunk), int(number), key)


def group_of(chunk: int, chunks: int, groups: int) -> int:
    """The group of chunks that are given out together."""
    return chunk * groups // chunks


@dataclass(slots=True)
class _Joined:
    """What has been found for the page of one place."""

    redirects: list[str] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)
    golds: dict[int, str] = field(default_factory=dict)
    is_part: bool = False
    described: str = ""


#: By the number of a chunk and of an entity in it.
Found = dict[tuple[int, int], _Joined]
_NOTHING = _Joined()


class Emitter:
    """Gives out the records of a dump that has been read and joined."""

    def __init__(self, plan: Plan, types: TypeNames, largest_lot: int) -> None:
        self._plan = plan
        self._types = types
        self._largest_lot = largest_lot
        self.left_out: Counter[str] = Counter()
        """How many pages and chosen texts were not given out, and why."""

    def records(self, chunk: int, found: Found) -> Iterator[Record]:
        """The records of a chunk; ``found`` is what was joined for its group."""
        file = self._plan.chunk(chunk)
        drawn = json_rows(read_section(file, DOCUMENTS))
        texts = {number: text for number, lot, *text in drawn if lot <= self._largest_lot}
        for number, values in enumerate(json_rows(read_section(file, ENTITIES))):
            key, title = values[:2]
            joined = found.get((chunk, number), _NOTHING)
            if joined.is_part:
                self.left_out["subpage"] += 1
                continue
            yield self._entity(values, joined)
            if number in texts:
                words, spans = texts[number]
                mentions = tuple(
                    Mention(start, end, words[start:end], (EntityId("", joined.golds[place]),))
                    for place, (start, end) in enumerate(spans)
                    if joined.golds.get(place, key) != key
                )
                if mentions:
                    yield Document(key, words, mentions, title)
                else:
                    self.left_out["text without a link to an entity"] += 1

    def _entity(self, values: list[Any], joined: _Joined) -> Entity:
        key, title, description, type_, url, template, categories = values
        settings = self._plan.settings
        least = settings.min_anchor_count
        anchors = [
            Alias(surface, "anchor", count)
            for surface, count in joined.anchors.items()
            if least and count >= least and is_name(surface)
        ]
        anchors.sort(key=lambda alias: (-alias.count, alias.surface))
        return Entity(
            key,
            title,
            description or joined.described if settings.sentences else "",
            type_ or self._types.name(template, categories),
            url,
            float(sum(joined.anchors.values())),
            settings.language,
            (*(Alias(title, "redirect") for title in sorted(set(joined.redirects))), *anchors),
        )


def joined_of(plan: Plan, group: int) -> Found:
    """All that was joined for a group of chunks."""
    found: Found = {}
    for kind, chunk, number, *rest in read_lines(map(plan.joined, range(plan.parts)), group):
        joined = found.setdefault((int(chunk), int(number)), _Joined())
        if kind == "a":
            anchor, count = rest
            joined.anchors[anchor] = joined.anchors.get(anchor, 0) + int(count)
        elif kind == "r":
            joined.redirects.append(rest[0])
        elif kind == "s":
            joined.is_part = True
        elif kind == "d":
            joined.described = max(joined.described, rest[0], key=len)
        else:
            joined.golds[int(rest[0])] = rest[1]
    return found
