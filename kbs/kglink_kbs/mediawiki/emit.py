"""The second pass: entities and documents in the order of their pages, with all that was joined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kglink.records import Alias, Document, Entity, EntityId, Mention, Record
from kglink_kbs.mediawiki.job import ENTITIES, TEXTS, Plan
from kglink_kbs.mediawiki.links import is_name
from kglink_kbs.mediawiki.resolve import group_of
from kglink_kbs.mediawiki.spill import json_rows, read_lines, read_section


class _Joined:
    """What has been found for the page of one place."""

    __slots__ = ("anchors", "golds", "redirects")

    def __init__(self) -> None:
        self.redirects: list[str] = []
        self.anchors: dict[str, int] = {}
        self.golds: dict[int, str] = {}


class _Row(NamedTuple):
    key: str
    title: str
    description: str
    type: str
    url: str


class _Text(NamedTuple):
    words: str
    spans: list[list[int]]


_Found = dict[tuple[int, int], _Joined]
_NOTHING = _Joined()


class Emitter:
    """Gives out the records of a dump that has been read and joined."""

    def __init__(self, plan: Plan, chunks: int, groups: int) -> None:
        self._plan = plan
        self._chunks = chunks
        self._groups = groups
        self._group = -1
        self._found: _Found = {}
        self.left_out = 0
        """How many chosen texts had no link to an entity that is given out."""

    def records(self, chunk: int) -> Iterator[Record]:
        """The records of a chunk; the chunks are asked for in their order."""
        if (group := group_of(chunk, self._chunks, self._groups)) != self._group:
            self._group, self._found = group, self._names(group)
        path, found = self._plan.chunk(chunk), self._found
        texts = self._texts(chunk)
        for number, values in enumerate(json_rows(read_section(path, ENTITIES))):
            row = _Row(*values)
            joined = found.get((chunk, number), _NOTHING)
            yield self._entity(row, joined)
            if (text := texts.get(number)) is not None:
                document = self._document(row, text, joined)
                if document is None:
                    self.left_out += 1
                else:
                    yield document

    def _entity(self, row: _Row, joined: _Joined) -> Entity:
        popularity = sum(joined.anchors.values())
        return Entity(
            row.key,
            row.title,
            row.description,
            row.type,
            row.url,
            float(popularity),
            self._plan.language,
            self._aliases(joined),
        )

    def _aliases(self, joined: _Joined) -> tuple[Alias, ...]:
        least = self._plan.min_anchor_count
        redirects = [Alias(title, "redirect") for title in sorted(set(joined.redirects))]
        if not least:
            return tuple(redirects)
        anchors = [
            Alias(surface, "anchor", count)
            for surface, count in joined.anchors.items()
            if count >= least and is_name(surface)
        ]
        anchors.sort(key=lambda alias: (-alias.count, alias.surface))
        return (*redirects, *anchors)

    def _document(self, row: _Row, text: _Text, joined: _Joined) -> Document | None:
        mentions = tuple(
            Mention(start, end, text.words[start:end], (EntityId("", joined.golds[place]),))
            for place, (start, end) in enumerate(text.spans)
            if place in joined.golds
        )
        return Document(row.key, text.words, mentions, row.title) if mentions else None

    def _texts(self, chunk: int) -> dict[int, _Text]:
        """The chosen texts of a chunk, by the numbers of their entities."""
        if not self._plan.documents:
            return {}
        rows = json_rows(read_section(self._plan.texts(chunk), TEXTS))
        return {number: _Text(words, spans) for number, words, spans in rows}

    def _names(self, group: int) -> _Found:
        """All that was joined for a group of chunks."""
        found: _Found = {}
        files = [self._plan.joined(part) for part in range(self._plan.parts)]
        for kind, chunk, number, *rest in read_lines(files, group):
            joined = found.setdefault((int(chunk), int(number)), _Joined())
            if kind == "a":
                anchor, count = rest
                joined.anchors[anchor] = joined.anchors.get(anchor, 0) + int(count)
            elif kind == "r":
                joined.redirects.append(rest[0])
            else:
                joined.golds[int(rest[0])] = rest[1]
        return found
