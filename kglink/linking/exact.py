"""Names that one thing alone bears, exactly or one letter off, answered without the linker.

Whoever bears a name exactly is also the linker's first candidate, so this gives the same entities
at a fraction of the time. The probabilities are shares measured on names without text
(`benchmarks/resolve.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rapidfuzz.distance import OSA

from kglink.arrays import IntArray
from kglink.linking.describe import described
from kglink.linking.memory import Memory
from kglink.linking.sameness import Sameness
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.space.names import NameIndex
from kglink.space.space import Space
from kglink.text.fold import fold
from kglink.text.name_words import name_key
from kglink.text.plain import to_the_letter

if TYPE_CHECKING:
    from kglink.store import Store

#: How often the one bearer of a name is meant by it: where the name is its title (or another of
#: its names), and written the same to the letter (or but for capitals, accents, punctuation).
#: Shares of the train mentions of NCBI Disease and BC5CDR, in DOID and in HP.
RIGHT: Mapping[tuple[bool, bool], float] = {
    (True, True): 0.93,
    (True, False): 0.9,
    (False, True): 0.89,
    (False, False): 0.79,
}
#: How probably a candidate is meant whose name is so few letters off (left out, added, replaced or
#: swapped): letters, least length of the name, probability. The first is the share of the same
#: mentions; the others are worth a look: four in ten there, one in ten of everyday names.
MISSPELT: Sequence[tuple[int, int, float]] = ((1, 10, 0.65), (1, 6, 0.25), (2, 10, 0.25))
#: The least length of the first of these, and the number of names like it that are compared.
_LONG, _ALIKE = MISSPELT[0][1], 16
_MANY = 99


class Known(NamedTuple):
    """The one thing that bears a name, in the KB that answers for it, and how sure that is."""

    candidate: Candidate
    probability: float


@dataclass(frozen=True, slots=True)
class ExactNames:
    """Finds the one thing that bears a name in some KBs of a space."""

    space: Space
    sameness: Sameness
    store: Store
    memory: Memory | None
    kbs: Sequence[str]
    preferred: Sequence[str]
    """The KBs, the one first that answers where several have the same thing."""

    def find(self, names: Sequence[str]) -> list[Known | None]:
        """For each name the one thing that bears it, or else one that is a letter off.

        None where nothing or several things do, or where memory knows the name: then the linker
        weighs all evidence.
        """
        folded = [fold(name) for name in names]
        keys = [name_key(one) for one in folded]
        remembered = self.memory.meanings(set(keys)) if self.memory else {}
        found: list[Known | None] = [None] * len(names)
        rest = []
        for at, (name, key) in enumerate(zip(names, keys, strict=True)):
            if not folded[at] or key in remembered:
                continue
            rows = {kb: self._names(kb).exact(folded[at]) for kb in self.kbs}
            found[at] = self._one_thing(name, rows)
            if not any(map(len, rows.values())) and len(folded[at]) >= _LONG:
                rest.append(at)
        asked = [folded[at] for at in rest]
        alike = {kb: self._names(kb).similar(asked, _ALIKE) for kb in self.kbs if asked}
        for place, at in enumerate(rest):
            rows = {}
            for kb, hits in alike.items():
                other = self._names(kb).folded
                near = [row for row in hits[place][0] if letters_off(folded[at], other[row]) == 1]
                rows[kb] = np.array(near, np.int64)
            found[at] = self._one_thing(names[at], rows, off=1)
        rankings = [
            Ranking(MentionInText(name, 0, len(name)), (one.candidate,))
            for name, one in zip(names, found, strict=True)
            if one
        ]
        answers = iter(described(self.store, rankings, 1))
        return [one and one._replace(candidate=next(answers).candidates[0]) for one in found]

    def _names(self, kb: str) -> NameIndex:
        return self.space.segments[kb].names

    def _one_thing(self, name: str, rows: Mapping[str, IntArray], off: int = 0) -> Known | None:
        """The one thing that some alias rows are of, in the KB that answers first."""
        bearers = {
            kb: np.unique(self.space.segments[kb].entity_of(own))
            for kb, own in rows.items()
            if len(own)
        }
        if not bearers or self.sameness.are_several(bearers):
            return None
        known = [self._known(kb, int(own[0]), name, rows[kb], off) for kb, own in bearers.items()]
        order = {kb: place for place, kb in enumerate(self.preferred)}
        first = min(known, key=lambda one: order[one.candidate.id.kb])
        return first._replace(probability=max(one.probability for one in known))

    def _known(self, kb: str, entity: int, name: str, rows: IntArray, off: int) -> Known:
        segment = self.space.segments[kb]
        is_title = int(segment.alias_starts[entity]) in rows
        written = to_the_letter(name)
        same_case = any(to_the_letter(segment.surfaces[row]) == written for row in rows)
        evidence = {"exact": 1.0, "title": float(is_title), "case": float(same_case)}
        probability = RIGHT[is_title, same_case]
        if off:
            evidence, probability = {"letters off": float(off)}, MISSPELT[0][2]
        candidate = Candidate(
            id=EntityId(kb, segment.keys[entity]),
            title=segment.titles[entity],
            score=probability,
            popularity=float(segment.popularity[entity]),
            evidence=evidence,
        )
        return Known(candidate, probability)


def misspelt(name: str, candidate: Candidate) -> float:
    """How probably a name means a candidate whose name is a few letters off; 0: it is too far off.

    Short words and words with digits, such as ``type 2`` and ``B cell``, are never misspelt.
    """
    folded = fold(name)
    found = 0.0
    for other in map(fold, {candidate.title, *candidate.aliases}):
        off = letters_off(folded, other)
        fits = (sure for most, least, sure in MISSPELT if off <= most and len(folded) >= least)
        found = max(found, *fits, 0.0)
    return found


def letters_off(left: str, right: str) -> int:
    """How many letters two folded names differ by; many where short words or digits differ."""
    off = OSA.distance(left, right, score_cutoff=2)
    return off if off <= 2 and _codes(left) == _codes(right) else _MANY


def _codes(folded: str) -> list[str]:
    words = (one for one in folded.split() if one != "s")  # of a possessive
    return sorted(one for one in words if len(one) <= 2 or not one.isalpha())
