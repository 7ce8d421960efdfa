"""Recall after an epoch, by exact search; the best epoch is chosen by it.

The pools are those of `kglink.evaluation.rankings`: a KB's recall counts the mentions with gold in
it and searches it alone; judged joint searches all KBs that hold a gold of the mention; joint
searches all KBs. Where a sample of the entities is searched, all golds are in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.evaluation.measures.retrieval import Figures
from kglink.evaluation.rankings import JOINT, JSON_KEYS, JUDGED_JOINT
from kglink.linking.contexts import spread
from kglink.plugins import RowRange
from kglink.records import OnProgress, Progress
from kglink.training.data import TrainingData, as_ids
from kglink.training.encoded_pool import EncodedPool
from kglink.training.recipe import SelectionSection

#: Recall is reported at these k, and at the one that is chosen by.
KS = (1, 8, 64)


class Recalls(Figures):
    """Recall on the mentions that are held back."""

    def mean(self) -> dict[str, float]:
        """``{"R@1": ...}``: the mean over KBs that any mention has its gold in."""
        each = [self.recall(kb) for kb in self.kbs()]
        return {metric: sum(one[metric] for one in each) / len(each) for metric in each[0]}

    def micro(self, metric: str) -> float:
        """The mean over mentions, each searched in the KB of its gold."""
        counts = self.mentions
        hits = sum(self.recall(kb)[metric] * counts[kb] for kb in self.kbs())
        return hits / sum(counts[kb] for kb in self.kbs())

    def chosen(self, selection: SelectionSection) -> float:
        """The figure that epochs are compared by."""
        if selection.pool == "own_kb":
            return self.micro(selection.metric)
        for pool, key in JSON_KEYS.items():
            if selection.pool == key:
                return self.recall(pool)[selection.metric]
        return self.mean()[selection.metric]

    def as_json(self) -> dict[str, object]:
        """The shape of a line of the curve."""
        joint = {key: self.recall(pool) for pool, key in JSON_KEYS.items()}
        by_kb = {kb: self.recall(kb) for kb in self.kbs()}
        return {"mean": self.mean(), **joint, "kb": by_kb, "mentions": self.counts_as_json()}


def judged_mentions(data: TrainingData, selection: SelectionSection) -> IntArray:
    """The mentions held back that epochs are compared by: all, or evenly spaced ones."""
    wanted = np.arange(len(data.valid))
    if selection.kbs == "target" and data.kbs.targets:
        wanted = data.valid.within(data.pool.rows(data.kbs.targets))
    return wanted[spread(len(wanted), selection.most_mentions)]


def searched_rows(data: TrainingData, selection: SelectionSection) -> IntArray:
    """The rows of the pool that they are searched among."""
    count = len(data.pool)
    if not selection.most_entities:
        return np.arange(count)
    golds = data.valid.gold_sets(judged_mentions(data, selection).tolist())
    known = np.array(sorted(frozenset().union(*golds)), np.int64)
    return np.union1d(known, spread(count, selection.most_entities))


def validate(
    data: TrainingData,
    pool: EncodedPool,
    selection: SelectionSection,
    progress: OnProgress = lambda _: None,
) -> Recalls:
    """Rank the pool's entities, those of `searched_rows`, for the mentions held back."""
    chosen, searched = judged_mentions(data, selection), searched_rows(data, selection)
    texts = as_ids(data.valid.tokens.take(chosen.tolist()))
    golds = data.valid.gold_sets(chosen.tolist())
    bounds = np.searchsorted(searched, [(kb.start, kb.stop) for kb in data.pool.kbs]).tolist()
    kbs = [(kb.name, RowRange(*own)) for kb, own in zip(data.pool.kbs, bounds, strict=True)]
    recalls = Recalls((*KS, selection.k))
    progress(Progress("judging by mentions", 0, len(chosen)))
    for part, scores in pool.scores(texts, RowRange(0, len(searched)), recalls.ks[-1]):
        for row, gold in zip(scores, golds[part], strict=True):
            _add_ranks(recalls, row, np.searchsorted(searched, sorted(gold)).tolist(), kbs)
        progress(Progress("judging by mentions", part.stop, len(chosen)))
    return recalls


def _add_ranks(
    recalls: Recalls,
    scores: FloatArray,
    gold: Sequence[int],
    kbs: Sequence[tuple[str, RowRange]],
) -> None:
    """Count a mention in all of its pools."""
    golds_of = {
        (name, rows): inside
        for name, rows in kbs
        if (inside := [row for row in gold if rows.start <= row < rows.stop])
    }
    ranks = {name: _rank(scores, inside, [rows]) for (name, rows), inside in golds_of.items()}
    ranks[JUDGED_JOINT] = _rank(scores, gold, [rows for _, rows in golds_of])
    ranks[JOINT] = _rank(scores, gold, [RowRange(0, len(scores))])
    for pool, rank in ranks.items():
        recalls.add_rank(pool, rank, rank)


def _rank(scores: FloatArray, gold: Sequence[int], pools: Sequence[RowRange]) -> int:
    """The rank of the best gold; of equal scores the smaller row comes first."""
    best = min(gold, key=lambda one: (-scores[one], one))
    ahead = 0
    for start, stop in pools:
        ahead += int((scores[start:stop] > scores[best]).sum())
        ahead += int((scores[start : min(stop, best)] == scores[best]).sum())
    return ahead + 1
