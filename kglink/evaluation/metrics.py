"""Figures from ranks: pure functions.

The rank of a mention is that of the first right entity, counted from 1; None where no right one
is among the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log2

Rank = int | None
#: How many mentions have each rank.
Ranks = Mapping[Rank, int]

#: How deep MAP@10 looks, and how many candidates a reranker is given.
RERANKED = 10
AP_AT_1 = "AP@1"
MAP_AT_10 = f"MAP@{RERANKED}"
MRR = "MRR"
NDCG_AT_10 = f"nDCG@{RERANKED}"


def hit(rank: Rank, k: int) -> float:
    """1 where a right entity is among the first k, else 0."""
    return float(rank is not None and rank <= k)


def reciprocal(rank: Rank, *, within: int | None = None) -> float:
    """1 / rank; 0 for none, or one beyond ``within``."""
    if rank is None or (within is not None and rank > within):
        return 0.0
    return 1 / rank


def discounted(rank: Rank, *, within: int = RERANKED) -> float:
    """1 / log2(1 + rank): what nDCG@k is of a mention with one answer; 0 beyond ``within``."""
    return 0.0 if rank is None or rank > within else 1 / log2(1 + rank)


def recall_at(ranks: Ranks, k: int) -> float:
    """R@k: the share of mentions with a right entity among the first k."""
    return _mean(ranks, lambda rank: hit(rank, k))


def map_at(ranks: Ranks, k: int = RERANKED) -> float:
    """MAP@k of mentions with one answer each: the mean of 1 / rank, 0 beyond k."""
    return _mean(ranks, lambda rank: reciprocal(rank, within=k))


def mean_reciprocal_rank(ranks: Ranks) -> float:
    """MRR: the mean of 1 / rank, 0 where no right entity was found."""
    return _mean(ranks, reciprocal)


def figures_of(retrieved: Ranks, reranked: Ranks, ks: Sequence[int]) -> dict[str, float]:
    """Every figure by its name; AP@1, MAP@10 and nDCG@10 are of the order after re-ranking."""
    recalls = {f"R@{k}": recall_at(retrieved, k) for k in ks}
    return recalls | {
        AP_AT_1: recall_at(reranked, 1),
        MAP_AT_10: map_at(reranked),
        MRR: mean_reciprocal_rank(retrieved),
        NDCG_AT_10: _mean(reranked, discounted),
    }


def intervals_of(
    retrieved: Ranks, reranked: Ranks, ks: Sequence[int]
) -> dict[str, tuple[float, float]]:
    """The 95% interval of every figure of `figures_of`."""
    from kglink.evaluation.intervals import mean_interval, share_interval

    def share(ranks: Ranks, k: int) -> tuple[float, float]:
        part = sum(count for rank, count in ranks.items() if hit(rank, k))
        return share_interval(part, sum(ranks.values()))

    def mean(ranks: Ranks, value: Callable[[Rank], float]) -> tuple[float, float]:
        ordered = sorted(ranks.items(), key=lambda item: item[0] or 0)
        return mean_interval([value(rank) for rank, _ in ordered], [count for _, count in ordered])

    return {f"R@{k}": share(retrieved, k) for k in ks} | {
        AP_AT_1: share(reranked, 1),
        MAP_AT_10: mean(reranked, partial(reciprocal, within=RERANKED)),
        MRR: mean(retrieved, reciprocal),
        NDCG_AT_10: mean(reranked, discounted),
    }


def _mean(ranks: Ranks, value: Callable[[Rank], float]) -> float:
    """The mean over all mentions; 0 where there are none."""
    # In one order: the same counts give the same sum, in whatever order they came.
    ordered = sorted(ranks.items(), key=lambda item: item[0] or 0, reverse=True)
    total = sum(ranks.values())
    return sum(count * value(rank) for rank, count in ordered) / total if total else 0.0
