"""Figures by hand: from ranks, and from hand-made rankings, pool by pool and slice by slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import log2

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from hand_made_rankings import DOCUMENTS, KBS, HandMade, document, same
from kglink.errors import UsageError
from kglink.evaluation.measures.retrieval import (
    Figures,
    RetrievalReport,
    figures_of,
    hit,
    reciprocal,
)
from kglink.evaluation.rankings import (
    JOINT,
    JUDGED_JOINT,
    Counterparts,
    Domain,
    Rank,
    RankedMention,
    rank_mentions,
)
from kglink.evaluation.retrieval import Question
from kglink.linking.pipeline import BATCH_MENTIONS
from kglink.linking.stages import Stage
from kglink.records import Document, Entity, EntityId, Ranking


def ranks(
    documents: Iterable[Document], depth: int = 3, counterparts: Counterparts | None = None
) -> list[RankedMention]:
    return list(rank_mentions(HandMade(), documents, KBS, depth, counterparts=counterparts))


def recalls(mentions: Iterable[RankedMention]) -> dict[str, tuple[int, list[float]]]:
    """Mentions and recall at 1, 2 and 3 of each pool."""
    figures = Figures((3, 1, 2))
    for mention in mentions:
        figures.add(mention)
    return {
        pool: (count, list(figures.recall(pool).values()))
        for pool, count in figures.mentions.items()
    }


# ------------------------------------------------------------------------------ from ranks
def test_the_figures_of_five_mentions_by_hand() -> None:
    found = Counter[Rank]([1, 1, 4, 20, None])
    told = figures_of(found, found, (1, 3, 4, 20, 64))
    assert [told[f"R@{k}"] for k in (1, 3, 4, 20, 64)] == [0.4, 0.4, 0.6, 0.8, 0.8]
    assert told["MAP@10"] == pytest.approx((1 + 1 + 1 / 4) / 5)
    assert told["MRR"] == pytest.approx((1 + 1 + 1 / 4 + 1 / 20) / 5)
    reranked = Counter[Rank]([1, 2, 2, 20, None])
    assert figures_of(found, reranked, (1, 64)) == {
        "R@1": 0.4,
        "R@64": 0.8,
        "AP@1": 0.2,
        "MAP@10": pytest.approx(0.4),
        "MRR": pytest.approx(0.46),
        "nDCG@10": pytest.approx((1 + 2 / log2(3)) / 5),
    }


def test_ndcg_is_that_of_scikit_learn() -> None:
    found = Counter[Rank]([1, 2, 3, 10, 11, None])
    relevance = np.zeros((6, 12))
    for row, rank in enumerate([1, 2, 3, 10, 11, 12]):
        relevance[row, rank - 1] = 1  # a list has an answer somewhere, below what is looked at
    scores = np.tile(-np.arange(12.0), (6, 1))
    assert figures_of(Counter(), found, ())["nDCG@10"] == pytest.approx(
        ndcg_score(relevance, scores, k=10)
    )


def test_one_mention_by_hand() -> None:
    assert (hit(3, 3), hit(4, 3), hit(None, 3)) == (1, 0, 0)
    assert (reciprocal(4), reciprocal(None)) == (0.25, 0)
    assert (reciprocal(10, within=10), reciprocal(11, within=10)) == (0.1, 0)


def test_no_mentions_have_figures_of_zero() -> None:
    assert set(figures_of(Counter(), Counter(), (1, 5)).values()) == {0.0}


@pytest.mark.parametrize("ks", [(), (0,), (-3, 2)])
def test_ranks_that_there_are_not_are_refused(ks: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="wants ranks from 1 on"):
        Question(("docs",), "dev", ks=ks)


# --------------------------------------------------------------------------- from rankings
def test_golds_alone_are_right_where_nothing_else_is_said() -> None:
    mentions = ranks(DOCUMENTS)
    assert [dict(mention.ranks) for mention in mentions] == [
        {"a": 1, JOINT: 3, JUDGED_JOINT: 1},
        {"a": 1, "c": None, JOINT: 2, JUDGED_JOINT: 2},
        {"c": 1, JOINT: 3, JUDGED_JOINT: 1},
    ]
    assert recalls(mentions) == {
        "a": (2, [1, 1, 1]),
        "c": (2, [1 / 2, 1 / 2, 1 / 2]),  # c:2 is no candidate at all
        JOINT: (3, [0, 1 / 3, 1]),  # at the ranks 3, 2, 3
        JUDGED_JOINT: (3, [2 / 3, 1, 1]),  # in a, in a and c, in c: at 1, 2, 1
    }


def test_counterparts_are_right_in_the_joint_pools_only() -> None:
    plain, mentions = recalls(ranks(DOCUMENTS)), ranks(DOCUMENTS, counterparts=same)
    found = recalls(mentions)
    # b:1 is at rank 1, a:2 at 2 before b:2, a:9 at 1.
    assert found.pop(JOINT) == (3, [2 / 3, 1, 1])
    # The pools are the same as before: b is in none of them, so its entities are not, either.
    assert found.pop(JUDGED_JOINT) == plain.pop(JUDGED_JOINT)
    assert plain.pop(JOINT) == (3, [0, 1 / 3, 1])
    assert found == plain
    assert [mention.with_counterpart for mention in mentions] == [True, True, True]


def test_a_counterpart_in_a_judged_kb_counts_there() -> None:
    documents = [document("one", "a:7", "b:7")]
    plain, found = recalls(ranks(documents)), recalls(ranks(documents, counterparts=same))
    assert plain[JUDGED_JOINT] == plain[JOINT] == (1, [0, 0, 0])
    assert found[JUDGED_JOINT] == found[JOINT] == (1, [1, 1, 1])
    assert found["b"] == (1, [0, 0, 0])  # asked for b alone, b:7 is what is right


def test_counterparts_outside_of_the_ranked_kbs_are_not_counted_as_any() -> None:
    documents = [document("six", "c:6")]
    (mention,) = rank_mentions(HandMade(), documents, ("b", "c"), 2, counterparts=same)
    assert not mention.with_counterpart
    assert mention.ranks[JOINT] == 2


def test_counterparts_are_asked_for_batch_by_batch() -> None:
    asked: list[int] = []

    def counting(ids: Iterable[EntityId]) -> dict[EntityId, tuple[EntityId, ...]]:
        wanted = list(ids)
        asked.append(len(wanted))
        return same(wanted)

    documents = [document("one", "a:1") for _ in range(BATCH_MENTIONS + 1)]
    found = recalls(ranks(documents, counterparts=counting))
    assert asked == [1, 1]
    assert found[JOINT] == (BATCH_MENTIONS + 1, [1, 1, 1])


def test_a_gold_that_is_named_twice_and_golds_beside_it_count_once() -> None:
    (twice,) = ranks([document("two", "a:2", "a:2", "a:8")])
    assert twice == ranks([document("two", "a:8", "a:2")])[0]
    assert recalls([twice])["a"] == (1, [1, 1, 1])
    # Of several golds the first in the ranking counts, whichever it is.
    (both,) = ranks([document("one", "a:1", "c:1")])
    assert both.ranks == {"a": 1, "c": 1, JOINT: 2, JUDGED_JOINT: 1}


def test_nothing_below_the_depth_is_found() -> None:
    (mention,) = ranks([document("one", "a:1")], depth=2)
    assert mention.ranks == {"a": 1, JOINT: None, JUDGED_JOINT: 1}


# ------------------------------------------------------------------------------- reranking
class Backwards:
    """Turns the candidates round."""

    def __init__(self) -> None:
        self.asked: list[Ranking] = []

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        self.asked += rankings
        return [
            replace(one, candidates=tuple(replace(c, score=-c.score) for c in one.candidates[::-1]))
            for one in rankings
        ]


def test_a_reranker_orders_the_first_ten_of_each_pool() -> None:
    ranking = {"x": [f"a:{at}" for at in range(12)] + ["b:1"]}
    backwards = Backwards()
    linker = HandMade(ranking, [Stage("backwards", backwards, 10)], ("a", "b"))
    found = {
        gold: next(rank_mentions(linker, [document("x", gold)], ("a", "b"), 20))
        for gold in ("a:0", "a:9", "a:10", "b:1", "a:99")
    }
    # The tenth comes first, what stands behind it stays, what was not found is not found.
    assert [(one.ranks[JOINT], one.reranked[JOINT]) for one in found.values()] == [
        (1, 10), (10, 1), (11, 11), (13, 13), (None, None),
    ]  # fmt: skip
    assert found["b:1"].reranked == {"b": 1, JOINT: 13, JUDGED_JOINT: 1}
    assert {len(one.candidates) for one in backwards.asked} == {10, 1}
    # Where pools have the same first candidates they are read once: all of a, joint and judged.
    assert len(backwards.asked) == 4 + 2


def test_retrieval_is_measured_before_and_precision_after_reranking() -> None:
    linker = HandMade(stages=[Stage("backwards", Backwards(), 10)])
    figures = Figures((1,))
    for mention in rank_mentions(linker, [document("one", "a:1")], KBS, 10):
        figures.add(mention)
    assert figures.of(JOINT) == {
        "R@1": 0, "AP@1": 1, "MAP@10": 1, "MRR": pytest.approx(1 / 3), "nDCG@10": 1,
    }  # fmt: skip


# ----------------------------------------------------------------------------------- slices
def entities(ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
    kinds = {"a:1": "bird", "a:2": "tree", "c:2": "", "c:6": "bird"}
    return {one: Entity(one.key, "x", type=kinds[str(one)]) for one in ids if str(one) in kinds}


def test_domains_are_types_of_golds_within_their_kbs() -> None:
    mentions = list(rank_mentions(HandMade(), DOCUMENTS, KBS, 3, entities=entities))
    assert [mention.domains for mention in mentions] == [
        (Domain("a", "bird"),),
        (Domain("a", "tree"), Domain("c", "")),
        (Domain("c", "bird"),),
    ]
    report = RetrievalReport((1, 2))
    for mention in [*mentions, mentions[1]]:
        report.add_to_slices(mention, is_seen=False)
    found = {
        kb: {kind: (one["mentions"], one["R@1"]) for kind, one in kinds.items()}
        for kb, kinds in report.domains().items()
    }
    # The largest first; the ranks are those within the KB.
    assert found == {"a": {"tree": (2, 1), "bird": (1, 1)}, "c": {"": (2, 0), "bird": (1, 1)}}
    assert list(found["a"]) == ["tree", "bird"]


def test_seen_and_unseen_make_up_the_whole() -> None:
    report = RetrievalReport((1,), seen_in=["x:train"])
    for mention in ranks(DOCUMENTS):
        report.add_to_slices(mention, is_seen=mention.surface == "two")
    assert report.seen.mentions == {"a": 1, "c": 1, JOINT: 1, JUDGED_JOINT: 1}
    assert report.unseen.mentions == {"a": 1, "c": 1, JOINT: 2, JUDGED_JOINT: 2}
    assert report.seen.of("c")["R@1"] == 0
    assert report.unseen.of("c")["R@1"] == 1
    assert report.mean_over_kbs()["R@1"] == (1 + 1 / 2) / 2
    assert report.slices_as_json().keys() == {
        *("seen_in", "seen", "unseen", "seen_entities", "unseen_entities")
    }


def test_slices_by_quality_are_those_of_the_annotation() -> None:
    report = RetrievalReport((1,))
    for mention, quality in zip(ranks(DOCUMENTS), ("gold", "", "silver"), strict=True):
        report.add_to_slices(replace(mention, quality=quality), is_seen=False)
    assert {name: one.mentions[JOINT] for name, one in report.by_quality.items()} == {
        "gold": 1,
        "silver": 1,
    }
    assert report.slices_as_json().keys() == {"by_quality"}


def test_documents_of_several_kbs_are_figures_of_their_own() -> None:
    report = RetrievalReport((1,), counterparts=True)
    for docs, documents in (("x", DOCUMENTS[:1]), ("y", DOCUMENTS[1:])):
        for mention in rank_mentions(HandMade(), documents, KBS, 3, docs=docs):
            report.add_to_slices(mention, is_seen=False)
    assert report.with_counterparts == 0
    assert {name: one.mentions[JOINT] for name, one in report.by_docs.items()} == {"x": 1, "y": 2}
    assert report.as_json()["kb"] == {"a": report.of("a"), "c": report.of("c")}
    assert report.counts_as_json() == {"a": 2, "c": 2, "joint": 3, "judged_joint": 3}
    assert report.slices_as_json().keys() == {"by_docs"}
