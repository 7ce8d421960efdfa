"""All pairs of names of many pairs of entities, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kglink.overlap.names import without_disambiguator
from kglink.plugins import EntityPair
from kglink.records import Entity
from kglink.text.fold import fold

#: Names of an entity that are compared: its title and those seen most often.
MOST_NAMES = 24

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]


def folded_names(entity: Entity, most: int = MOST_NAMES) -> list[str]:
    """The distinct folded names, the title first, also without what it has in brackets."""
    others = sorted(entity.aliases, key=lambda alias: -alias.count)
    surfaces = [entity.title, without_disambiguator(entity.title)]
    surfaces += [alias.surface for alias in others]
    names = dict.fromkeys(fold(surface) for surface in surfaces)
    names.pop("", None)
    return list(names)[:most]


@dataclass(frozen=True, slots=True)
class NamePairs:
    """The names of both sides, each entity's once, and the rows of all pairs of names.

    The pairs of names of pair i are those from ``starts[i]`` on. An entity without a name has
    one row that is empty.
    """

    lefts: list[str]
    rights: list[str]
    left_rows: IntArray
    right_rows: IntArray
    starts: IntArray

    @classmethod
    def of(cls, pairs: Sequence[EntityPair]) -> NamePairs:
        """The names of some pairs of entities."""
        lefts, left_first, left_count = _listed([pair.left for pair in pairs])
        rights, right_first, right_count = _listed([pair.right for pair in pairs])
        products = left_count * right_count
        starts = np.cumsum(products) - products
        pair_of = np.repeat(np.arange(len(pairs)), products)
        within = np.arange(len(pair_of)) - starts[pair_of]
        width = right_count[pair_of]
        return cls(
            lefts,
            rights,
            left_first[pair_of] + within // width,
            right_first[pair_of] + within % width,
            starts,
        )

    def best(self, values: npt.ArrayLike) -> FloatArray:
        """The largest of the values of each pair's pairs of names."""
        if not len(self.starts):
            return np.empty(0, np.float32)
        found: FloatArray = np.maximum.reduceat(np.asarray(values, np.float32), self.starts)
        return found


def _listed(entities: Sequence[Entity]) -> tuple[list[str], IntArray, IntArray]:
    """All names, and for each entity where its names begin and how many they are."""
    names: list[str] = []
    places: dict[str, tuple[int, int]] = {}
    for entity in entities:
        if entity.key not in places:
            own = folded_names(entity) or [""]
            places[entity.key] = (len(names), len(own))
            names += own
    found = np.array([places[entity.key] for entity in entities], np.int64).reshape(-1, 2)
    return names, found[:, 0], found[:, 1]
