"""Which entities are one thing, by accepted overlaps, by their texts, or by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.linking.decide import LEAST_NEARNESS
from kglink.linking.names import Found
from kglink.records import EntityId, Overlap
from kglink.space.numbering import runs_at
from kglink.space.segment import Segment
from kglink.space.space import Space

#: Counterparts of a KB's entities in another: rows in order, theirs there, probabilities.
_Pairs = tuple[IntArray, IntArray, FloatArray]


_NO_PAIRS = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)


class Counterparts:
    """The accepted overlaps of a space's KBs, as rows of their segments."""

    def __init__(self, pairs: Mapping[tuple[str, str], _Pairs]) -> None:
        self._pairs = pairs

    @classmethod
    def of(cls, overlaps: Iterable[Overlap], segments: Mapping[str, Segment]) -> Counterparts:
        """Those whose entities the space holds."""
        found: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
        for overlap in overlaps:
            left, right = overlap.left, overlap.right
            if left.kb in segments and right.kb in segments:
                rows = segments[left.kb].row(left.key), segments[right.kb].row(right.key)
                if min(rows) >= 0:
                    probability = 1.0 if overlap.verdict == "correct" else overlap.probability
                    found.setdefault((left.kb, right.kb), []).append((*rows, probability))
                    found.setdefault((right.kb, left.kb), []).append((*rows[::-1], probability))
        pairs: dict[tuple[str, str], _Pairs] = {}
        for kbs, own in found.items():
            first, others, sure = zip(*sorted(own), strict=True)
            pairs[kbs] = np.array(first), np.array(others), np.array(sure, dtype=np.float32)
        return cls(pairs)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def of_rows(self, kb: str, rows: IntArray, other: str) -> tuple[IntArray, IntArray, FloatArray]:
        """Counterparts of some rows in another KB: whose each is, its row, its probability."""
        if (kb, other) not in self._pairs:
            return _NO_PAIRS
        own, others, probabilities = self._pairs[kb, other]
        first = np.searchsorted(own, rows, side="left")
        counts = np.searchsorted(own, rows, side="right") - first
        places, owner = runs_at(first, counts)
        return owner, others[places], probabilities[places]


class Sameness:
    """Compares the entities of a space with each other."""

    def __init__(self, space: Space, counterparts: Counterparts | None) -> None:
        self._space = space
        self._counterparts = counterparts

    def nearness(self, left: EntityId, right: EntityId) -> float:
        """The cosine of the texts of two entities; 0 where the space has no vectors of texts.

        For KBs without vectors names decide: 1 where the two share one.
        """
        alone = self._space.manifest.names_alone
        if left.kb in alone or right.kb in alone:
            return float(not self._names_of(left).isdisjoint(self._names_of(right)))
        if not self._space.has_rows("text"):
            return 0.0
        vectors = []
        for one in (left, right):
            segment = self._space.segments[one.kb]
            (vector,) = segment.vectors("text", np.array([segment.row(one.key)]))
            vectors.append(vector / max(float(np.linalg.norm(vector)), 1e-9))
        return float(vectors[0] @ vectors[1])

    def several_bear_the_name(self, found: Mapping[str, Found]) -> bool:
        """Whether several entities that are not the same thing bear the name of a mention."""
        named = {
            kb: one.entities[one.evidence["exact"] > 0] for kb, one in found.items() if one.is_named
        }
        return self.are_several(named)

    def are_several(self, named: Mapping[str, IntArray]) -> bool:
        """Whether some entities, given by their rows in each KB, are more than one thing."""
        if len(named) < 2 or any(len(rows) > 1 for rows in named.values()):
            return any(len(rows) > 1 for rows in named.values())
        return not all(
            self._is_same(*pair)
            for pair in combinations([(kb, int(rows[0])) for kb, rows in named.items()], 2)
        )

    def _is_same(self, left: tuple[str, int], right: tuple[str, int]) -> bool:
        """Whether entities of two KBs, given by their rows, are one thing: accepted, or alike."""
        if self._counterparts:
            _, others, _ = self._counterparts.of_rows(left[0], np.array([left[1]]), right[0])
            if right[1] in others:
                return True
        ids = [EntityId(kb, self._space.segments[kb].keys[row]) for kb, row in (left, right)]
        return self.nearness(ids[0], ids[1]) >= LEAST_NEARNESS

    def _names_of(self, entity: EntityId) -> set[str]:
        """The folded names of an entity."""
        segment = self._space.segments[entity.kb]
        rows, _ = segment.aliases_of(np.array([segment.row(entity.key)]))
        return set(segment.names.folded.take(rows))
