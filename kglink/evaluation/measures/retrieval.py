"""Retrieval: figures from the ranks of mentions, for all of them and for some.

The rank of a mention is that of the first right entity, counted from 1; None where no right one
is among the candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import log2
from typing import Any, Literal, NamedTuple

from kglink.evaluation.rankings import JOINT, JSON_KEYS, JUDGED_JOINT, Rank, RankedMention
from kglink.evaluation.significance import Interval, mean_interval, share_interval
from kglink.shown import Shown

#: How many mentions have each rank.
Ranks = Mapping[Rank, int]

#: How deep MAP@10 looks, and how many candidates a reranker is given.
RERANKED = 10
AP_AT_1 = "AP@1"
MAP_AT_10 = f"MAP@{RERANKED}"
MRR = "MRR"
NDCG_AT_10 = f"nDCG@{RERANKED}"
#: The figures of tables and comparisons beside R@k; JSON has all of `values_of`.
SHOWN = (AP_AT_1, MAP_AT_10, MRR)


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


class Value(NamedTuple):
    """What a mention counts, by its rank as retrieved (`ranks`) or re-ranked."""

    order: Literal["ranks", "reranked"]
    of: Callable[[Rank], float]
    is_share: bool = False
    """It counts 0 or 1: its interval is that of a share."""


def values_of(ks: Sequence[int], *, depth: int | None = None) -> dict[str, Value]:
    """What each figure is the mean of, by its name; MRR looks ``depth`` deep (None: to the end)."""
    return {
        **{f"R@{k}": Value("ranks", partial(hit, k=k), is_share=True) for k in ks},
        AP_AT_1: Value("reranked", partial(hit, k=1), is_share=True),
        MAP_AT_10: Value("reranked", partial(reciprocal, within=RERANKED)),
        MRR: Value("ranks", partial(reciprocal, within=depth)),
        NDCG_AT_10: Value("reranked", discounted),
    }


def _counted(
    retrieved: Ranks, reranked: Ranks, ks: Sequence[int]
) -> Iterator[tuple[str, Value, list[float], list[int]]]:
    """For each figure its values from the last rank to none, and how many mentions have each."""
    for name, one in values_of(ks, depth=max((RERANKED, *ks))).items():
        ranks = retrieved if one.order == "ranks" else reranked
        # In one order: the same counts give the same sum, in whatever order they came.
        ordered = sorted(ranks.items(), key=lambda item: item[0] or 0, reverse=True)
        yield name, one, [one.of(rank) for rank, _ in ordered], [count for _, count in ordered]


def figures_of(retrieved: Ranks, reranked: Ranks, ks: Sequence[int]) -> dict[str, float]:
    """Every figure by its name, 0 where there are no mentions.

    AP@1, MAP@10 and nDCG@10 are of the order after re-ranking.
    """
    return {
        name: sum(n * value for n, value in zip(counts, values, strict=True)) / (sum(counts) or 1)
        for name, _, values, counts in _counted(retrieved, reranked, ks)
    }


def intervals_of(retrieved: Ranks, reranked: Ranks, ks: Sequence[int]) -> dict[str, Interval]:
    """The 95% interval of every figure of `figures_of`."""
    found = {}
    for name, one, values, counts in _counted(retrieved, reranked, ks):
        if one.is_share:
            part = sum(count for value, count in zip(values, counts, strict=True) if value)
            found[name] = share_interval(part, sum(counts))
        else:
            found[name] = mean_interval(values[::-1], counts[::-1])
    return found


class Accuracy(NamedTuple):
    """How often the first candidate is right, after re-ranking."""

    mentions: int
    with_gold: int
    """Those with a right entity among their candidates."""
    right: int

    @property
    def unnormalized(self) -> float:
        """The share of all mentions."""
        return self.right / self.mentions if self.mentions else 0.0

    @property
    def normalized(self) -> float:
        """The share of those with a right entity among their candidates."""
        return self.right / self.with_gold if self.with_gold else 0.0

    def as_json(self) -> dict[str, float]:
        """The counts and both shares."""
        shares = {"normalized": self.normalized, "unnormalized": self.unnormalized}
        return {**self._asdict(), **shares}


class Figures(Shown):
    """The figures of some mentions, pool by pool."""

    def __init__(self, ks: Sequence[int]) -> None:
        self.ks = tuple(sorted(set(ks)))
        #: How many mentions of each pool have each rank, as retrieved and after re-ranking.
        self._pools: dict[str, tuple[Counter[Rank], Counter[Rank]]] = {}

    def add(self, mention: RankedMention) -> None:
        """Count a mention in all of its pools."""
        for pool, rank in mention.ranks.items():
            self.add_rank(pool, rank, mention.reranked[pool])

    def add_rank(self, pool: str, rank: Rank, reranked: Rank) -> None:
        """Count a mention in one pool."""
        before, after = self._pools.setdefault(pool, (Counter(), Counter()))
        before[rank] += 1
        after[reranked] += 1

    @property
    def mentions(self) -> dict[str, int]:
        """How many mentions each pool has."""
        return {pool: self._pools[pool][0].total() for pool in self.pools()}

    def kbs(self) -> list[str]:
        """The KBs that any mention has its gold in."""
        return sorted(self._pools.keys() - JSON_KEYS.keys())

    def pools(self) -> list[str]:
        """The KBs in their order, then the joint pools."""
        return [*self.kbs(), *(pool for pool in (JOINT, JUDGED_JOINT) if pool in self._pools)]

    def recall(self, pool: str) -> dict[str, float]:
        """``{"R@1": ...}`` of one pool."""
        figures = self.of(pool)
        return {f"R@{k}": figures[f"R@{k}"] for k in self.ks}

    def of(self, pool: str) -> dict[str, float]:
        """All figures of one pool by their names."""
        return figures_of(*self._pools[pool], self.ks)

    def intervals(self, pool: str) -> dict[str, Interval]:
        """The 95% intervals of the figures of one pool."""
        return intervals_of(*self._pools[pool], self.ks)

    def accuracy(self, pool: str) -> Accuracy:
        """How often the first candidate of a pool is right."""
        retrieved, reranked = self._pools[pool]
        mentions = retrieved.total()
        return Accuracy(mentions, mentions - retrieved[None], reranked[1])

    def accuracies_as_json(self) -> dict[str, object]:
        """Of each KB, of all their mentions (micro), and the mean of the KBs (macro)."""
        each = {kb: self.accuracy(kb) for kb in self.kbs()}
        return {
            "kb": {kb: one.as_json() for kb, one in each.items()},
            "micro": micro(each.values()).as_json(),
            "macro": macro(each.values()),
        }

    def mean_over_kbs(self) -> dict[str, float]:
        """The mean of the KBs' figures, every KB alike."""
        each = [self.of(kb) for kb in self.kbs()]
        names = each[0] if each else ()
        return {name: sum(one[name] for one in each) / len(each) for name in names}

    def as_json(self) -> dict[str, object]:
        """The figures in the shape of ``kglink eval --json``."""
        kbs = {kb: self.of(kb) for kb in self.kbs()}
        return {**self._joint(self.of), "mean": self.mean_over_kbs(), "kb": kbs}

    def intervals_as_json(self) -> dict[str, object]:
        """The intervals of the figures of `as_json`, by the same keys."""
        return {**self._joint(self.intervals), "kb": {kb: self.intervals(kb) for kb in self.kbs()}}

    def _joint(self, figures_of: Callable[[str], object]) -> dict[str, object]:
        return {
            key: figures_of(pool) if pool in self._pools else {} for pool, key in JSON_KEYS.items()
        }

    def counts_as_json(self) -> dict[str, int]:
        """The mentions of each pool, by the same keys."""
        return {JSON_KEYS.get(pool, pool): count for pool, count in self.mentions.items()}


class RetrievalReport(Figures):
    """The figures of all mentions, and of those that have something in common.

    ``with_counterparts`` is the number of mentions of which a gold has a counterpart that counts
    in the joint pools; None: none counts there. ``seen_in`` says which mentions were learnt from;
    empty: nobody said so, and what is seen and unseen is empty too. A surface is seen where a
    mention had it, an entity (``seen_entities``) where a mention meant it.
    """

    def __init__(
        self, ks: Sequence[int], *, counterparts: bool = False, seen_in: Sequence[str] = ()
    ) -> None:
        super().__init__(ks)
        self.with_counterparts = 0 if counterparts else None
        self.seen_in = tuple(seen_in)
        self.seen, self.unseen = Figures(ks), Figures(ks)
        self.seen_entities, self.unseen_entities = Figures(ks), Figures(ks)
        self.by_quality: dict[str, Figures] = {}
        self.by_docs: dict[str, Figures] = {}
        self._domains: dict[str, dict[str, Figures]] = {}

    def add_to_slices(
        self, mention: RankedMention, *, is_seen: bool, is_seen_entity: bool = False
    ) -> None:
        """Count a mention everywhere."""
        self.add(mention)
        if self.with_counterparts is not None:
            self.with_counterparts += mention.with_counterpart
        if self.seen_in:
            (self.seen if is_seen else self.unseen).add(mention)
            (self.seen_entities if is_seen_entity else self.unseen_entities).add(mention)
        if mention.quality:
            self.by_quality.setdefault(mention.quality, Figures(self.ks)).add(mention)
        self.by_docs.setdefault(mention.docs, Figures(self.ks)).add(mention)
        for kb, kind in mention.domains:
            self._domains.setdefault(kb, {}).setdefault(kind, Figures(self.ks)).add(mention)

    def domains(self) -> dict[str, dict[str, Mapping[str, Any]]]:
        """For each KB and type of entity the figures of the KB's pool, the largest types first.

        A mention whose golds are of several types counts in each of them.
        """
        found: dict[str, dict[str, Mapping[str, Any]]] = {}
        for kb, kinds in sorted(self._domains.items()):
            sizes = {kind: figures.mentions[kb] for kind, figures in kinds.items()}
            order = sorted(sizes, key=lambda kind: (-sizes[kind], kind))
            found[kb] = {kind: {"mentions": sizes[kind], **kinds[kind].of(kb)} for kind in order}
        return found

    def slices_as_json(self) -> dict[str, object]:
        """The slices in the shape of ``kglink eval --json``: those that there are."""
        found: dict[str, object] = {}
        if self.seen_in:
            found["seen_in"] = list(self.seen_in)
            found["seen"], found["unseen"] = _whole(self.seen), _whole(self.unseen)
            found["seen_entities"] = _whole(self.seen_entities)
            found["unseen_entities"] = _whole(self.unseen_entities)
        if self.by_quality:
            found["by_quality"] = {
                name: _whole(self.by_quality[name]) for name in sorted(self.by_quality)
            }
        if len(self.by_docs) > 1:
            found["by_docs"] = {docs: _whole(figures) for docs, figures in self.by_docs.items()}
        if self._domains:
            found["domains"] = self.domains()
        return found


def micro(each: Iterable[Accuracy]) -> Accuracy:
    """Of all mentions alike."""
    return Accuracy(*map(sum, zip(Accuracy(0, 0, 0), *each, strict=True)))


def macro(each: Collection[Accuracy]) -> dict[str, float]:
    """The plain means over KBs; one without a right answer counts like any other."""
    count = max(len(each), 1)
    return {
        "normalized": sum(one.normalized for one in each) / count,
        "unnormalized": sum(one.unnormalized for one in each) / count,
    }


def _whole(figures: Figures) -> dict[str, object]:
    return {"mentions": figures.counts_as_json(), "metrics": figures.as_json()}
