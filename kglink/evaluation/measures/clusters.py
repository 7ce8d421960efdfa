"""How well mentions are put together: clusters that were found against those that are right.

ARI and NMI are of the mentions whose meaning is known; one that is in no found cluster is one of
its own. B-cubed and CEAF (Luo 2005) are defined where the mentions themselves differ: precision is
of those that were found, recall of those that are annotated.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.arrays import IntArray
from kglink.clusters.neighbours import nearest_others
from kglink.evaluation.measures.end_to_end import Answer, JudgedText, PrecisionRecall
from kglink.evaluation.rankings import RankedMention
from kglink.records import MentionInText

FloatArray = npt.NDArray[np.floating[Any]]

#: The label of a mention that is in no cluster: not found, or not annotated.
ABSENT = -1
#: How many nearest mentions are looked through for those that mean the same (ArboEL, figure 3).
NEAREST = 64


class ClusterFigures(NamedTuple):
    """The figures of clusters; ``mentions`` are the annotated ones, ``found`` the answered ones."""

    mentions: int
    found: int
    gold_clusters: int
    found_clusters: int
    ari: float
    """The Rand index of Hubert and Arabie, adjusted for chance."""
    nmi: float
    """Mutual information, by the arithmetic mean of both entropies."""
    b_cubed: PrecisionRecall
    ceaf_m: PrecisionRecall
    """By mentions that both clusters share (phi-3)."""
    ceaf_e: PrecisionRecall
    """By how alike two clusters are (phi-4)."""
    mention_recall: float | None = None
    """How many of a mention's like are among its `NEAREST`; None: no vectors were asked."""

    def as_json(self) -> dict[str, object]:
        """By name, in the shape of ``kglink eval --clusters --json``."""
        figures = {
            name: value._asdict() if isinstance(value, PrecisionRecall) else value
            for name, value in self._asdict().items()
        }
        return {**figures, f"mention_recall@{NEAREST}": figures.pop("mention_recall")}


class _Shared(NamedTuple):
    """The pairs of a found and a gold cluster that share mentions, and all clusters' sizes."""

    found: IntArray
    gold: IntArray
    counts: FloatArray
    found_sizes: FloatArray
    gold_sizes: FloatArray


def cluster_figures(found: IntArray, gold: IntArray) -> ClusterFigures:
    """The figures of mentions by the number of their cluster, `ABSENT` where they have none."""
    shared = _shared(found, gold)
    found_count, gold_count = float(shared.found_sizes.sum()), float(shared.gold_sizes.sum())
    squares = shared.counts**2
    per_found = float((squares / shared.found_sizes[shared.found]).sum())
    per_gold = float((squares / shared.gold_sizes[shared.gold]).sum())
    both = shared.found_sizes[shared.found] + shared.gold_sizes[shared.gold]
    mentions = _best_sum(shared, shared.counts)
    alike = _best_sum(shared, 2 * shared.counts / both)
    annotated = gold != ABSENT
    # Each mention without an answer is a cluster of its own.
    own = np.where(found == ABSENT, found.max(initial=0) + 1 + np.arange(len(found)), found)
    known = _shared(own[annotated], gold[annotated])
    return ClusterFigures(
        int(gold_count),
        int(found_count),
        len(shared.gold_sizes),
        len(shared.found_sizes),
        _adjusted_rand_index(known),
        _mutual_information(known),
        _ratios(per_found, found_count, per_gold, gold_count),
        _ratios(mentions, found_count, mentions, gold_count),
        _ratios(alike, len(shared.found_sizes), alike, len(shared.gold_sizes)),
    )


def adjusted_rand_index(found: Sequence[Hashable], gold: Sequence[Hashable]) -> float:
    """ARI of two labels of the same things."""
    return _adjusted_rand_index(_shared(labels_of(found), labels_of(gold)))


def labels_of(names: Iterable[Hashable | None]) -> IntArray:
    """A number for each name, the same for the same; `ABSENT` for None."""
    numbers: dict[Hashable, int] = {}
    return np.fromiter(
        (ABSENT if one is None else numbers.setdefault(one, len(numbers)) for one in names),
        np.int64,
    )


def neighbour_recall(neighbours: IntArray, gold: IntArray) -> float | None:
    """Mention recall: the share of a mention's like that is among its nearest mentions.

    Each row of ``neighbours`` has the numbers of a mention's k nearest others, -1 where there are
    fewer. The mean over mentions that mean what another one means too, of how many of these are
    there, by the smaller of their number and k; None without such mentions.
    """
    _, numbers, sizes = np.unique(gold, return_inverse=True, return_counts=True)
    others = sizes[numbers] - 1
    some = others > 0
    if not some.any():
        return None
    near = neighbours[some]
    same = (near >= 0) & (gold[near] == gold[some][:, None])
    return float((same.sum(axis=1) / np.minimum(others[some], neighbours.shape[1])).mean())


class Coreference:
    """Gathers of each mention what it means and what was answered, as two clusterings.

    Mentions with the same golds are one cluster, and so are mentions with the same answer. In raw
    texts ``meant`` has by text and place the golds of mentions that no KB has, in their source's
    words; where mentions are annotated in part (not ``complete``) answers elsewhere do not count.
    """

    def __init__(
        self, meant: Mapping[tuple[str, int, int], Hashable] | None = None, *, complete: bool = True
    ) -> None:
        self._meant = meant or {}
        self._complete = complete
        self._gold: list[Hashable | None] = []
        self._found: list[Hashable | None] = []
        self.given: list[MentionInText] = []
        """The mentions whose places were given."""

    def add_ranked(self, mention: RankedMention) -> None:
        """A mention whose place was given: its first candidate is the answer."""
        self.given.append(MentionInText(mention.text, mention.start, mention.end))
        self._gold.append(mention.gold)
        self._found.append(mention.candidates[0].id if mention.candidates else None)

    def add_answers(self, text: JudgedText, answers: Sequence[Answer]) -> None:
        """A raw text; an answer at another place than the mentions' is one too many."""
        at = {(one.start, one.end): one for one in answers}
        for one in text.source.mentions:
            answer = at.pop((one.start, one.end), None)
            own = tuple(sorted(set(one.gold or ())))  # in whatever order the source names them
            gold = self._meant.get((text.source.text, one.start, one.end)) or own
            if gold:  # else nobody said which others mean the same
                self._gold.append(gold)
                self._found.append(None if answer is None else self._cluster(answer))
        if self._complete:
            self._gold += [None] * len(at)
            self._found += map(self._cluster, at.values())

    def _cluster(self, answer: Answer) -> Hashable:
        """What an answer is together with; NIL without a cluster is alone."""
        return (
            answer.entity or answer.cluster or ("alone", len(self._gold), answer.start, answer.end)
        )

    def figures(self, vectors: FloatArray | None = None) -> ClusterFigures:
        """The figures of all that was added; ``vectors`` are those of `given`."""
        gold = labels_of(self._gold)
        found = cluster_figures(labels_of(self._found), gold)
        if vectors is None:
            return found
        near = nearest_others(vectors, NEAREST).numbers
        return found._replace(mention_recall=neighbour_recall(near, gold))


def _shared(found: IntArray, gold: IntArray) -> _Shared:
    """Counted, with the clusters numbered anew."""
    found_at, found_sizes = _numbered(found)
    gold_at, gold_sizes = _numbered(gold)
    both = (found != ABSENT) & (gold != ABSENT)
    width = max(len(gold_sizes), 1)
    pairs, counts = np.unique(found_at[both] * width + gold_at[both], return_counts=True)
    return _Shared(pairs // width, pairs % width, counts.astype(float), found_sizes, gold_sizes)


def _numbered(labels: IntArray) -> tuple[IntArray, FloatArray]:
    """Each mention's label as its place among those that there are, and their sizes."""
    present = labels != ABSENT
    _, places, sizes = np.unique(labels[present], return_inverse=True, return_counts=True)
    at = np.full(len(labels), ABSENT, dtype=np.int64)
    at[present] = places
    return at, sizes.astype(float)


def _ratios(right: float, found: float, right_of_gold: float, gold: float) -> PrecisionRecall:
    if not found and not gold:
        return PrecisionRecall(1.0, 1.0, 1.0)
    precision, recall = right / found if found else 0.0, right_of_gold / gold if gold else 0.0
    total = precision + recall
    return PrecisionRecall(precision, recall, 2 * precision * recall / total if total else 0.0)


def _adjusted_rand_index(shared: _Shared) -> float:
    def pairs(counts: FloatArray) -> float:
        return float((counts * (counts - 1)).sum() / 2)

    both, left, right = map(pairs, (shared.counts, shared.found_sizes, shared.gold_sizes))
    count = shared.counts.sum()
    expected = left * right / (count * (count - 1) / 2) if count > 1 else 0.0
    most = (left + right) / 2
    return 1.0 if most == expected else float((both - expected) / (most - expected))


def _mutual_information(shared: _Shared) -> float:
    count = shared.counts.sum()
    if not count:
        return 1.0
    found, gold = shared.found_sizes / count, shared.gold_sizes / count
    both = shared.counts / count
    expected = found[shared.found] * gold[shared.gold]
    information = float((both * np.log(both / expected)).sum())
    mean = -float((found * np.log(found)).sum() + (gold * np.log(gold)).sum()) / 2
    return max(0.0, min(1.0, information / mean)) if mean > 0 else 1.0


def _best_sum(shared: _Shared, weights: FloatArray) -> float:
    """The largest sum of weights where each cluster stands in one pair at most."""
    total = 0.0
    found, gold = shared.found, shared.gold
    while len(weights):
        # A pair that outweighs the next best pair of both its clusters together is in the best
        # sum: nearly all are, and only the rest needs a search.
        best_found, next_found = _best_two(found, weights)
        best_gold, next_gold = _best_two(gold, weights)
        at = np.arange(len(weights))
        chosen = (best_found[found] == at) & (best_gold[gold] == at)
        chosen &= weights >= next_found[found] + next_gold[gold]
        if not chosen.any():
            return total + _matched(found, gold, weights)
        total += float(weights[chosen].sum())
        left = ~(np.isin(found, found[chosen]) | np.isin(gold, gold[chosen]))
        found, gold, weights = found[left], gold[left], weights[left]
    return total


def _best_two(clusters: IntArray, weights: FloatArray) -> tuple[IntArray, FloatArray]:
    """By cluster the place of its best pair, the first of equals, and the next best's weight."""
    order = np.lexsort((-weights, clusters))
    first = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    best = np.full(clusters.max() + 1, ABSENT, dtype=np.int64)
    best[clusters[order[first]]] = order[first]
    following = np.zeros(len(best))
    second = first[np.append(np.diff(first), len(order) - first[-1]) > 1] + 1
    following[clusters[order[second]]] = weights[order[second]]
    return best, following


def _matched(found: IntArray, gold: IntArray, weights: FloatArray) -> float:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    _, rows = np.unique(found, return_inverse=True)
    _, columns = np.unique(gold, return_inverse=True)
    height, width = rows.max() + 1, columns.max() + 1
    # A found cluster may stay without a pair: then it has a column of its own, worth 1. So all
    # weights are one larger, and none is 0, which a sparse matrix does not hold.
    own = np.arange(height)
    values = np.concatenate([weights + 1, np.ones(height)])
    place = np.concatenate([rows, own]), np.concatenate([columns, width + own])
    matrix = csr_matrix((values, place), shape=(height, width + height))
    chosen = min_weight_full_bipartite_matching(matrix, maximize=True)
    return float(np.asarray(matrix[chosen]).sum() - height)
