"""Recall after an epoch, by exact search: what the best epoch is chosen by.

The words are those of `kglink.evaluation.rankings`: a KB's recall counts the mentions with gold in
it and searches it alone; judged joint searches all KBs that hold a gold of the mention; joint
searches all KBs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kglink.files.tables import IntArray
from kglink.plugins import RowRange
from kglink.records import OnProgress, Progress
from kglink.space.token_rows import FloatArray
from kglink.training.data import TrainingData
from kglink.training.encoded_pool import EncodedPool
from kglink.training.pool import as_ids
from kglink.training.recipe import SelectionSection

#: Recall is reported at these k, and at the one that is chosen by.
KS = (1, 8, 64)
JUDGED_JOINT = "judged_joint"
JOINT = "joint"
#: Several KBs as one list.
_LISTS = (JUDGED_JOINT, JOINT)


class Recalls(NamedTuple):
    """Recall at each k by KB, judged joint and joint; ``mentions`` says of how many."""

    ks: tuple[int, ...]
    mentions: dict[str, int]
    recalls: dict[str, dict[str, float]]

    def mean_over_kbs(self, metric: str) -> float:
        """The mean over KBs that any mention has its gold in."""
        values = [found[metric] for pool, found in self.recalls.items() if pool not in _LISTS]
        return sum(values) / len(values)

    def chosen(self, selection: SelectionSection) -> float:
        """The figure that epochs are compared by."""
        if selection.pool in _LISTS:
            return self.recalls[selection.pool][selection.metric]
        return self.mean_over_kbs(selection.metric)

    def as_json(self) -> dict[str, object]:
        """As a line of the curve holds it."""
        mean = {f"R@{k}": self.mean_over_kbs(f"R@{k}") for k in self.ks}
        by_kb = {name: found for name, found in self.recalls.items() if name not in _LISTS}
        return {
            "mean": mean,
            "judged_joint": self.recalls[JUDGED_JOINT],
            "joint": self.recalls[JOINT],
            "kb": by_kb,
            "mentions": self.mentions,
        }


def validate(
    data: TrainingData,
    pool: EncodedPool,
    selection: SelectionSection,
    progress: OnProgress = lambda _: None,
) -> Recalls:
    """Search the pool for the mentions that are held back."""
    chosen = _sample(len(data.valid), selection.most_mentions)
    texts = as_ids(data.valid.tokens.take(chosen.tolist()))
    golds = data.valid.gold_sets(chosen.tolist())
    ranks: dict[str, list[int]] = {name: [] for name in (*data.kbs.all, *_LISTS)}
    whole = RowRange(0, len(data.pool))
    ks = tuple(sorted({*KS, selection.k}))
    for part, scores in pool.scores(texts, whole, ks[-1]):
        for name, found in _ranks(scores, golds[part], data).items():
            ranks[name] += found
        progress(Progress("judging by mentions", part.stop, len(chosen)))
    return _recalls(ranks, ks)


def _sample(count: int, most: int) -> IntArray:
    """All mentions, or so many of them, spread evenly: the same ones each time."""
    if count <= most:
        return np.arange(count)
    return np.arange(most) * count // most


def _ranks(
    scores: FloatArray, golds: Sequence[frozenset[int]], data: TrainingData
) -> dict[str, list[int]]:
    """For each pool the ranks of its mentions' first golds."""
    ranks: dict[str, list[int]] = {name: [] for name in (*data.kbs.all, *_LISTS)}
    for row, gold in zip(scores, golds, strict=True):
        with_gold = [
            (kb, inside)
            for kb in data.pool.kbs
            if (inside := [one for one in gold if kb.start <= one < kb.stop])
        ]
        for kb, inside in with_gold:
            ranks[kb.name].append(_rank(row, inside, [kb.rows]))
        kbs = [kb.rows for kb, _ in with_gold]
        ranks[JUDGED_JOINT].append(_rank(row, sorted(gold), kbs))
        ranks[JOINT].append(_rank(row, sorted(gold), [RowRange(0, len(data.pool))]))
    return ranks


def _rank(scores: FloatArray, gold: Sequence[int], pools: Sequence[RowRange]) -> int:
    """The rank of the best gold; of equal scores the smaller row comes first."""
    best = min(gold, key=lambda one: (-scores[one], one))
    ahead = 0
    for start, stop in pools:
        part = scores[start:stop]
        ahead += int((part > scores[best]).sum())
        ahead += int((scores[start : min(stop, best)] == scores[best]).sum()) if start < best else 0
    return ahead + 1


def _recalls(ranks: dict[str, list[int]], ks: tuple[int, ...]) -> Recalls:
    some = {name: np.array(found) for name, found in ranks.items() if found}
    recalls = {
        name: {f"R@{k}": float((found <= k).mean()) for k in ks} for name, found in some.items()
    }
    return Recalls(ks, {name: len(found) for name, found in some.items()}, recalls)
