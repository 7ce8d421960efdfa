"""Relatives: parents that match, children that match, and pairs that are one level apart."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.plugins import EntityPair, PairedKBs, PluginSettings, Side

#: Parents and children of an entity that are compared.
MOST_PARENTS = 8
MOST_CHILDREN = 32
#: Matching children beyond which more say nothing more.
ENOUGH_CHILDREN = 7
#: Entities whose children's pairs are remembered.
MOST_REMEMBERED = 1_000


class ParentEvidence:
    """Weighs what the first pass found of the parents and children of two entities."""

    second_pass = True

    def __init__(self, settings: PluginSettings) -> None:
        self._children: dict[Side, Children] = {}
        self._reached: dict[str, dict[str, float]] = {}

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Nothing; it reads who the children of each entity are."""
        self._children = {side: Children(kbs, side) for side in ("left", "right")}
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """The values of pairs.

        ``parents``: how probably any two of their parents are one; ``level``: how probably a
        parent of the one is the other; ``children``: how many children of both are the same
        (7 or more: 1, by powers of two), ``children_share``: which share of the fewer children.
        Those of parents are absent where either has none, and so are those of children.
        """
        return [{**self._upward(kbs, pair), **self._downward(kbs, pair)} for pair in pairs]

    def _upward(self, kbs: PairedKBs, pair: EntityPair) -> dict[str, float]:
        lefts, rights = pair.left.parents[:MOST_PARENTS], pair.right.parents[:MOST_PARENTS]
        if not lefts or not rights:
            return {}
        level = [kbs.probability(left, pair.right.key) for left in lefts]
        level += [kbs.probability(pair.left.key, right) for right in rights]
        parents = [kbs.probability(left, right) for left in lefts for right in rights]
        return {"parents": _most(parents), "level": _most(level)}

    def _downward(self, kbs: PairedKBs, pair: EntityPair) -> dict[str, float]:
        lefts = self._children["left"].of(pair.left.key) if self._children else []
        rights = self._children["right"].of(pair.right.key) if lefts else []
        if not lefts or not rights:
            return {}
        reached = self._reach(kbs, pair.left.key, lefts)
        same = min(
            sum(reached.get(right, 0.0) for right in rights), float(min(len(lefts), len(rights)))
        )
        return {
            "children": math.log2(1 + min(same, ENOUGH_CHILDREN)) / 3,
            "children_share": same / min(len(lefts), len(rights)),
        }

    def _reach(self, kbs: PairedKBs, key: str, children: Sequence[str]) -> dict[str, float]:
        """What the children of a left entity may be, and how probably the likeliest of them is."""
        if key not in self._reached:
            if len(self._reached) >= MOST_REMEMBERED:
                self._reached.clear()
            best: dict[str, float] = {}
            for child in children:
                for right, known in kbs.partners("left", child).items():
                    best[right] = max(best.get(right, 0.0), known)
            self._reached[key] = best
        return self._reached[key]


class Children:
    """The children of each entity of one KB: arrays, and their keys as one text."""

    def __init__(self, kbs: PairedKBs, side: Side) -> None:
        parents, children, starts = array("Q"), array("q"), array("q", [0])
        keys = bytearray()
        for entity in kbs.entities(side):
            if not entity.parents:
                continue
            for parent in entity.parents[:MOST_PARENTS]:
                parents.append(text_hash(parent))
                children.append(len(starts) - 1)
            keys += entity.key.encode("utf-8", "surrogatepass")
            starts.append(len(keys))
        hashes = np.array(parents, np.uint64)
        order = np.argsort(hashes, kind="stable")
        self._parents: npt.NDArray[np.uint64] = hashes[order]
        self._children: npt.NDArray[np.int64] = np.array(children, np.int64)[order]
        self._starts = np.array(starts, np.int64)
        self._keys = bytes(keys)

    def of(self, key: str) -> list[str]:
        """The keys of an entity's children."""
        if not len(self._parents):
            return []
        wanted = np.uint64(text_hash(key))
        start = int(np.searchsorted(self._parents, wanted))
        stop = int(np.searchsorted(self._parents, wanted, side="right"))
        return [self._key(number) for number in self._children[start:stop][:MOST_CHILDREN].tolist()]

    def _key(self, number: int) -> str:
        text = self._keys[self._starts[number] : self._starts[number + 1]]
        return text.decode("utf-8", "surrogatepass")


def _most(known: Sequence[float | None]) -> float:
    return max((one for one in known if one is not None), default=0.0)
