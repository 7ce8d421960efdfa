"""Which entities are one thing, by accepted overlaps, by their texts, or by their names."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from kglink.linking.counterparts import Counterparts
from kglink.linking.decide import LEAST_NEARNESS
from kglink.linking.names import Found
from kglink.records import EntityId
from kglink.space.space import Space


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
            kb: one.entities[one.evidence["exact"] > 0]
            for kb, one in found.items()
            if one.evidence["exact"].any()
        }
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
        return {segment.names.folded[row] for row in rows}
