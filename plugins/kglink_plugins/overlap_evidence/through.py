"""A third KB: both entities are the same entity of it, or of different ones."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.plugins import EntityPair, PairedKBs, PluginSettings

HashArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float32]


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
