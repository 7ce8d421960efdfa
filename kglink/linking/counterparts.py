"""What the same thing is in other KBs: accepted overlaps, as rows of segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kglink.records import Overlap
from kglink.space.segment import Segment

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The counterparts of the entities of one KB in another: rows, in order of the first."""

    rows: IntArray
    others: IntArray
    probabilities: FloatArray


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
                    sure = 1.0 if overlap.verdict == "correct" else overlap.probability
                    found.setdefault((left.kb, right.kb), []).append((*rows, sure))
                    found.setdefault((right.kb, left.kb), []).append((*rows[::-1], sure))
        return cls({kbs: _sorted(rows) for kbs, rows in found.items()})

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def of_rows(self, kb: str, rows: IntArray, other: str) -> tuple[IntArray, IntArray, FloatArray]:
        """Counterparts of some rows in another KB: whose each is, its row, its probability."""
        pairs = self._pairs.get((kb, other))
        if pairs is None or not len(rows):
            nothing = np.empty(0, dtype=np.int64)
            return nothing, nothing, np.empty(0, dtype=np.float32)
        first = np.searchsorted(pairs.rows, rows, side="left")
        counts = np.searchsorted(pairs.rows, rows, side="right") - first
        owner = np.repeat(np.arange(len(rows)), counts)
        offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(first, counts) + offset
        return owner, pairs.others[places], pairs.probabilities[places]


def _sorted(rows: list[tuple[int, int, float]]) -> _Pairs:
    ordered = sorted(rows)
    return _Pairs(
        np.array([row for row, _, _ in ordered], dtype=np.int64),
        np.array([other for _, other, _ in ordered], dtype=np.int64),
        np.array([sure for _, _, sure in ordered], dtype=np.float32),
    )
