"""How sure a figure is: 95% intervals over the mentions, or texts, that were judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from kglink.overlap.review.sample import wilson_interval

Interval = tuple[float, float]

ROUNDS = 1000
_ENDS = (2.5, 97.5)
#: Rounds that are drawn together, so that a large evaluation does not fill the memory.
_CHUNK = 100


def share_interval(part: int, whole: int) -> Interval:
    """Wilson interval of a proportion."""
    return wilson_interval(part, whole) if whole else (0.0, 0.0)


def mean_interval(values: Sequence[float], counts: Sequence[int]) -> Interval:
    """Of the mean of values that came so many times each: by bootstrap over the mentions."""
    whole = sum(counts)
    if not whole:
        return 0.0, 0.0
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(whole, np.asarray(counts) / whole, size=ROUNDS)
    return _ends(drawn @ np.asarray(values) / whole)


def group_interval(groups: Iterable[npt.NDArray[np.float64]]) -> Interval:
    """Of the mean of the means of groups of values: by bootstrap within each group."""
    drawn = []
    rng = np.random.default_rng(0)
    for group in groups:
        values, counts = np.unique(group, return_counts=True)
        drawn.append(rng.multinomial(len(group), counts / len(group), size=ROUNDS) @ values)
        drawn[-1] /= len(group)
    return _ends(np.mean(drawn, axis=0))


def text_intervals(counts: Sequence[tuple[int, int, int]]) -> tuple[Interval, Interval, Interval]:
    """Of precision, recall and F1 of all mentions, from each text's right, found and gold.

    By bootstrap over the texts: mentions of one text are right and wrong together.
    """
    if not counts:
        return ((0.0, 0.0),) * 3
    # Texts with the same counts need no draw each: how many are drawn is multinomial.
    texts, times = np.unique(np.asarray(counts), axis=0, return_counts=True)
    rng = np.random.default_rng(0)
    chances = times / len(counts)
    sums = np.concatenate(
        [
            rng.multinomial(len(counts), chances, size=_CHUNK) @ texts
            for _ in range(ROUNDS // _CHUNK)
        ]
    )
    right, found, gold = sums.T
    empty = (found + gold) == 0
    parts = ((right, found), (right, gold), (2 * right, found + gold))
    ends = (_ends(np.where(empty, 1.0, part / np.maximum(whole, 1))) for part, whole in parts)
    precision, recall, f1 = ends
    return precision, recall, f1


def _ends(drawn: npt.NDArray[np.float64]) -> Interval:
    low, high = np.percentile(drawn, _ENDS)
    return float(low), float(high)
