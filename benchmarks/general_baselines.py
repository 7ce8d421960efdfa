"""What kglink is compared with on general ground: a dictionary, spelling, and vectors of names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from general_scores import Answer
from rapidfuzz import fuzz, process

from kglink.records import Document, Entity, EntityId
from kglink.text.fold import fold

#: So many candidates are asked for.
MOST = 64
#: A name in a text has so many words at most.
_LONGEST = 10
#: Surfaces that are compared with all names at once.
_BATCH = 64


class Names:
    """The names of a KB, as they are written."""

    def __init__(self, kb: str, entities: Iterable[Entity]) -> None:
        bearers: dict[str, dict[EntityId, float]] = defaultdict(dict)
        for one in entities:
            for name in (one.title, *(alias.surface for alias in one.aliases)):
                bearers[name][EntityId(kb, one.key)] = one.popularity
        #: By name its entities, the most popular first.
        self.bearers: Mapping[str, Sequence[EntityId]] = {
            name: sorted(own, key=lambda one: (-own[one], one)) for name, own in bearers.items()
        }
        self.names = list(self.bearers)

    def bearers_by_folded_name(self) -> dict[str, int]:
        """How many entities have each name, folded."""
        found: dict[str, set[EntityId]] = defaultdict(set)
        for name, own in self.bearers.items():
            found[fold(name)].update(own)
        return {name: len(own) for name, own in found.items()}

    def raw(self, text: str) -> list[Answer]:
        """Names of a text from left to right, the longest first, each the most popular bearer."""
        words = [word.span() for word in re.finditer(r"\w+", text)]
        found, at = [], 0
        while at < len(words):
            for last in range(min(at + _LONGEST, len(words)) - 1, at - 1, -1):
                start, end = words[at][0], words[last][1]
                if own := self.bearers.get(text[start:end]):
                    found.append(Answer(start, end, own[0]))
                    at = last
                    break
            at += 1
        return found

    def given(self, document: Document) -> list[Answer]:
        """The bearers of each mention's words, the most popular first; none: NIL."""
        return [
            Answer(one.start, one.end, own[0] if own else None, 1.0, tuple(own[:MOST]))
            for one in document.mentions
            for own in [self.bearers.get(one.surface, ())]
        ]

    def by_spelling(self, surfaces: Sequence[str]) -> dict[str, tuple[EntityId, ...]]:
        """For each surface the bearers of the most similar names (`rapidfuzz.fuzz.ratio`)."""
        folded = [name.casefold() for name in self.names]
        found: dict[str, tuple[EntityId, ...]] = {}
        for first in range(0, len(surfaces), _BATCH):
            some = surfaces[first : first + _BATCH]
            alike = process.cdist([one.casefold() for one in some], folded, scorer=fuzz.ratio)
            for surface, scores in zip(some, alike, strict=True):
                order = np.argsort(-scores, kind="stable")[: 4 * MOST]
                bearers = dict.fromkeys(
                    bearer for row in order for bearer in self.bearers[self.names[row]]
                )
                found[surface] = tuple(bearers)[:MOST]
        return found


def given_by(found: Mapping[str, Sequence[EntityId]], document: Document) -> list[Answer]:
    """The first candidate of each mention with a gold; such a system knows no NIL."""
    return [
        Answer(one.start, one.end, own[0] if own else None, 1.0, tuple(own))
        for one in document.mentions
        if one.gold
        for own in [found[one.surface]]
    ]
