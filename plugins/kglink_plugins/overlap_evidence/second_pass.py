"""What the first pass found of others: relatives, rivals, and a third KB."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.plugins import EntityPair, PairedKBs, PluginSettings, Side

HashArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float32]

#: Parents and children of an entity that are compared.
MOST_PARENTS = 8
MOST_CHILDREN = 32
#: Matching children beyond which more say nothing more.
ENOUGH_CHILDREN = 7
#: Entities whose children's pairs are remembered.
_MOST_FAMILIES = 1_000


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
            if len(self._reached) >= _MOST_FAMILIES:
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
        self._parents: HashArray = hashes[order]
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
        numbers = self._children[start:stop][:MOST_CHILDREN].tolist()
        keys = (self._keys[self._starts[one] : self._starts[one + 1]] for one in numbers)
        return [key.decode("utf-8", "surrogatepass") for key in keys]


def _most(known: Sequence[float | None]) -> float:
    return max((one for one in known if one is not None), default=0.0)


#: Log odds beyond which a pair counts as no surer.
MOST_ODDS = 8.0
#: Entities whose best pairs are remembered.
MOST_REMEMBERED = 200_000


class RivalEvidence:
    """Weighs how far a pair leads the other pairs of its entities after the first pass."""

    second_pass = True

    def __init__(self, settings: PluginSettings) -> None:
        #: The best pair of an entity, and the log odds of the best and of the next one.
        self._best: dict[tuple[Side, str], tuple[str, float, float]] = {}

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Nothing: it weighs what others propose."""
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """The values of pairs.

        ``worse_lead`` and ``better_lead``: how much larger their log odds are than those of the
        best other pair of the one entity, and of the other one, as shares of the most that counts.
        """
        return [self._weighed(kbs, pair) for pair in pairs]

    def _weighed(self, kbs: PairedKBs, pair: EntityPair) -> Mapping[str, float]:
        known = kbs.probability(pair.left.key, pair.right.key)
        if known is None:
            return {}
        odds = log_odds(known)
        leads = sorted(
            (
                self._lead(kbs, "left", pair.left.key, pair.right.key, odds),
                self._lead(kbs, "right", pair.right.key, pair.left.key, odds),
            )
        )
        return {"worse_lead": leads[0], "better_lead": leads[1]}

    def _lead(self, kbs: PairedKBs, side: Side, key: str, other: str, odds: float) -> float:
        best = self._best.get((side, key))
        if best is None:
            if len(self._best) >= MOST_REMEMBERED:
                self._best.clear()
            best = self._best[side, key] = _best(kbs.partners(side, key))
        rival = best[2] if best[0] == other else best[1]
        return max(-1.0, min(1.0, (odds - rival) / MOST_ODDS))


def log_odds(probability: float) -> float:
    """Log odds, no surer than `MOST_ODDS`."""
    if not 0 < probability < 1:
        return MOST_ODDS if probability >= 1 else -MOST_ODDS
    odds = math.log(probability / (1 - probability))
    return max(-MOST_ODDS, min(MOST_ODDS, odds))


def _best(partners: Mapping[str, float]) -> tuple[str, float, float]:
    """The best and the next pair; where there is none, it is as sure as a pair can be wrong."""
    ranked = sorted(partners.items(), key=lambda one: (-one[1], one[0]))[:2]
    odds = [log_odds(probability) for _, probability in ranked]
    first, second = (*odds, -MOST_ODDS, -MOST_ODDS)[:2]
    return ranked[0][0] if ranked else "", first, second


class ThroughEvidence:
    """Proposes and weighs pairs that overlaps with a third KB lead to."""

    second_pass = True

    def __init__(self, settings: PluginSettings) -> None:
        self._paths: _Paths | None = None

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Pairs whose entities both overlap with one entity of a third KB."""
        lefts, rights, known = array("Q"), array("Q"), array("f")
        for left, right, _, probability in kbs.overlaps_through():
            lefts.append(text_hash(left))
            rights.append(text_hash(right))
            known.append(probability)
            yield left, right
        if known:
            sides = np.array(lefts, np.uint64), np.array(rights, np.uint64)
            self._paths = _Paths(*sides, np.array(known, np.float32))

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """The values of pairs.

        ``through``: how probably both are one entity of a third KB, by the best path there;
        ``conflict``: how much more probably one of the two is by such a path some other entity.
        Both are absent where no third KB has overlaps with both KBs.
        """
        paths = self._paths
        return [paths.weighed(pair.left.key, pair.right.key) if paths else {} for pair in pairs]


class _Paths:
    """Pairs with the best path of each, as sorted arrays."""

    def __init__(self, lefts: HashArray, rights: HashArray, known: FloatArray) -> None:
        self._by_left = _Sorted(lefts, rights, known)
        self._by_right = _Sorted(rights, lefts, known)

    def weighed(self, left: str, right: str) -> dict[str, float]:
        """The values of a pair."""
        one, other = np.uint64(text_hash(left)), np.uint64(text_hash(right))
        here, elsewhere = self._by_left.best(one, other)
        _, elsewhere_too = self._by_right.best(other, one)
        rival = max(elsewhere, elsewhere_too)
        return {"through": here, "conflict": max(0.0, rival - here)}


class _Sorted:
    def __init__(self, mine: HashArray, others: HashArray, known: FloatArray) -> None:
        order = np.argsort(mine, kind="stable")
        self._mine, self._others, self._known = mine[order], others[order], known[order]

    def best(self, mine: np.uint64, other: np.uint64) -> tuple[float, float]:
        """The best path to ``other``, and the best path to anything else."""
        start, stop = np.searchsorted(self._mine, mine), np.searchsorted(self._mine, mine, "right")
        if start == stop:
            return 0.0, 0.0
        known, same = self._known[start:stop], self._others[start:stop] == other
        here = float(known[same].max()) if same.any() else 0.0
        return here, float(known[~same].max()) if not same.all() else 0.0
