"""What the first pass found of others: relatives, rivals, and a third KB."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.plugins import EntityPair, PairedKBs, Side

Column = npt.NDArray[Any]

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

    def __init__(self) -> None:
        self._children: dict[Side, _Children] = {}
        self._reached: dict[str, dict[str, float]] = {}

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Nothing; it reads who the children of each entity are."""
        self._children = {side: _Children(kbs, side) for side in ("left", "right")}
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


class _ByHash:
    """Columns in the order of the hashes of some texts."""

    def __init__(self, hashes: Column, *columns: Column) -> None:
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        self._columns = [column[order] for column in columns]

    def of(self, text: str) -> list[Column]:
        """The parts of the columns that belong to a text."""
        wanted = np.uint64(text_hash(text))
        start = np.searchsorted(self._hashes, wanted)
        stop = np.searchsorted(self._hashes, wanted, side="right")
        return [column[start:stop] for column in self._columns]


class _Children:
    """The children of each entity of one KB: arrays, and their keys as one text."""

    def __init__(self, kbs: PairedKBs, side: Side) -> None:
        parents, children, self._starts = array("Q"), array("q"), array("q", [0])
        self._keys = bytearray()
        for entity in kbs.entities(side):
            if not entity.parents:
                continue
            for parent in entity.parents[:MOST_PARENTS]:
                parents.append(text_hash(parent))
                children.append(len(self._starts) - 1)
            self._keys += entity.key.encode("utf-8", "surrogatepass")
            self._starts.append(len(self._keys))
        self._by_parent = _ByHash(np.array(parents, np.uint64), np.array(children, np.int64))

    def of(self, key: str) -> list[str]:
        """The keys of an entity's children."""
        (numbers,) = self._by_parent.of(key)
        spans = (self._starts[one : one + 2] for one in numbers[:MOST_CHILDREN].tolist())
        return [self._keys[slice(*span)].decode("utf-8", "surrogatepass") for span in spans]


def _most(known: Sequence[float | None]) -> float:
    return max((one for one in known if one is not None), default=0.0)


#: Log odds beyond which a pair counts as no surer.
MOST_ODDS = 8.0
#: Entities whose best pairs are remembered.
MOST_REMEMBERED = 200_000


class RivalEvidence:
    """Weighs how far a pair leads the other pairs of its entities after the first pass."""

    second_pass = True

    def __init__(self) -> None:
        #: The best pair of an entity, and the log odds of the best and of the next one.
        self._best: dict[tuple[Side, str], tuple[str, float, float]] = {}

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Nothing: it weighs what others propose."""
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """The values of pairs.

        A lead: how far the pair's log odds exceed those of an entity's best other pair, divided
        by `MOST_ODDS`. ``worse_lead`` and ``better_lead``: the smaller and the larger lead.
        """
        values: list[Mapping[str, float]] = []
        for left, right in ((pair.left.key, pair.right.key) for pair in pairs):
            known = kbs.probability(left, right)
            if known is None:
                values.append({})
                continue
            one = self._lead(kbs, "left", left, right, log_odds(known))
            other = self._lead(kbs, "right", right, left, log_odds(known))
            values.append({"worse_lead": min(one, other), "better_lead": max(one, other)})
        return values

    def _lead(self, kbs: PairedKBs, side: Side, key: str, other: str, odds: float) -> float:
        best = self._best.get((side, key))
        if best is None:
            if len(self._best) >= MOST_REMEMBERED:
                self._best.clear()
            best = self._best[side, key] = _two_best(kbs.partners(side, key))
        rival = best[2] if best[0] == other else best[1]
        return max(-1.0, min(1.0, (odds - rival) / MOST_ODDS))


def log_odds(probability: float) -> float:
    """Log odds, no surer than `MOST_ODDS`."""
    if not 0 < probability < 1:
        return MOST_ODDS if probability >= 1 else -MOST_ODDS
    odds = math.log(probability / (1 - probability))
    return max(-MOST_ODDS, min(MOST_ODDS, odds))


def _two_best(partners: Mapping[str, float]) -> tuple[str, float, float]:
    """The best partner, and the two best log odds; `-MOST_ODDS` for a missing one."""
    ranked = sorted(partners.items(), key=lambda one: (-one[1], one[0]))[:2]
    odds = [log_odds(probability) for _, probability in ranked]
    first, second = (*odds, -MOST_ODDS, -MOST_ODDS)[:2]
    return ranked[0][0] if ranked else "", first, second


class ThroughEvidence:
    """Proposes and weighs pairs that overlaps with a third KB lead to."""

    second_pass = True

    def __init__(self) -> None:
        self._rights: _ByHash | None = None
        self._lefts: _ByHash | None = None

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Pairs whose entities both overlap with one entity of a third KB."""
        lefts, rights, known = array("Q"), array("Q"), array("f")
        for left, right, _, probability in kbs.overlaps_through():
            lefts.append(text_hash(left))
            rights.append(text_hash(right))
            known.append(probability)
            yield left, right
        if known:
            of_left, of_right = np.array(lefts, np.uint64), np.array(rights, np.uint64)
            paths = np.array(known, np.float32)
            self._rights = _ByHash(of_left, of_right, paths)
            self._lefts = _ByHash(of_right, of_left, paths)

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """The values of pairs.

        ``through``: how probably both are one entity of a third KB, by the best path there;
        ``conflict``: how much more probably one of the two is by such a path some other entity.
        Both are absent where no third KB has overlaps with both KBs.
        """
        if self._rights is None or self._lefts is None:
            return [{} for _ in pairs]
        values: list[Mapping[str, float]] = []
        for left, right in ((pair.left.key, pair.right.key) for pair in pairs):
            here, elsewhere = _best_paths(self._rights, left, right)
            _, elsewhere_too = _best_paths(self._lefts, right, left)
            rival = max(elsewhere, elsewhere_too)
            values.append({"through": here, "conflict": max(0.0, rival - here)})
        return values


def _best_paths(others: _ByHash, mine: str, other: str) -> tuple[float, float]:
    """The best path of one entity to another one, and the best to anything else."""
    hashes, known = others.of(mine)
    same = hashes == np.uint64(text_hash(other))
    return float(known[same].max(initial=0)), float(known[~same].max(initial=0))
