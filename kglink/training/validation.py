"""Recall after an epoch, by exact search; the best epoch is chosen by it.

The pools are those of `kglink.evaluation.rankings`: a KB's recall counts the mentions with gold in
it and searches it alone; judged joint searches all KBs that hold a gold of the mention; joint
searches all KBs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kglink.evaluation.rankings import JOINT, JSON_KEYS, JUDGED_JOINT
from kglink.evaluation.report import Figures
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


class Recalls(Figures):
    """Recall on the mentions that are held back."""

    def mean(self) -> dict[str, float]:
        """``{"R@1": ...}``: the mean over KBs that any mention has its gold in."""
        each = [self.recall(kb) for kb in self.kbs()]
        return {metric: sum(one[metric] for one in each) / len(each) for metric in each[0]}

    def chosen(self, selection: SelectionSection) -> float:
        """The figure that epochs are compared by."""
        for pool, key in JSON_KEYS.items():
            if selection.pool == key:
                return self.recall(pool)[selection.metric]
        return self.mean()[selection.metric]

    def as_json(self) -> dict[str, object]:
        """The shape of a line of the curve."""
        joint = {key: self.recall(pool) for pool, key in JSON_KEYS.items()}
        by_kb = {kb: self.recall(kb) for kb in self.kbs()}
        return {"mean": self.mean(), **joint, "kb": by_kb, "mentions": self.counts_as_json()}


def validate(
    data: TrainingData,
    pool: EncodedPool,
    selection: SelectionSection,
    progress: OnProgress = lambda _: None,
) -> Recalls:
    """Rank the whole pool for the mentions that are held back."""
    chosen = _sample(len(data.valid), selection.most_mentions)
    texts = as_ids(data.valid.tokens.take(chosen.tolist()))
    golds = data.valid.gold_sets(chosen.tolist())
    recalls = Recalls((*KS, selection.k))
    whole = RowRange(0, len(data.pool))
    progress(Progress("judging by mentions", 0, len(chosen)))
    for part, scores in pool.scores(texts, whole, recalls.ks[-1]):
        for row, gold in zip(scores, golds[part], strict=True):
            _add_ranks(recalls, row, sorted(gold), data)
        progress(Progress("judging by mentions", part.stop, len(chosen)))
    return recalls


def _sample(count: int, most: int) -> IntArray:
    """All mentions, or ``most`` evenly spaced ones, always the same."""
    if count <= most:
        return np.arange(count)
    return np.arange(most) * count // most


def _add_ranks(
    recalls: Recalls, scores: FloatArray, gold: Sequence[int], data: TrainingData
) -> None:
    """Count a mention in all of its pools."""
    golds_of = {
        kb: inside
        for kb in data.pool.kbs
        if (inside := [row for row in gold if kb.start <= row < kb.stop])
    }
    ranks = {kb.name: _rank(scores, inside, [kb.rows]) for kb, inside in golds_of.items()}
    ranks[JUDGED_JOINT] = _rank(scores, gold, [kb.rows for kb in golds_of])
    ranks[JOINT] = _rank(scores, gold, [RowRange(0, len(data.pool))])
    for pool, rank in ranks.items():
        recalls.add_rank(pool, rank, rank)


def _rank(scores: FloatArray, gold: Sequence[int], pools: Sequence[RowRange]) -> int:
    """The rank of the best gold; of equal scores the smaller row comes first."""
    best = min(gold, key=lambda one: (-scores[one], one))
    ahead = 0
    for start, stop in pools:
        part = scores[start:stop]
        ahead += int((part > scores[best]).sum())
        ahead += int((scores[start : min(stop, best)] == scores[best]).sum()) if start < best else 0
    return ahead + 1
