"""Clusters of mentions: published figures, scikit-learn, and the definitions written out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from kglink.arrays import IntArray
from kglink.evaluation.annotated import AnnotatedText
from kglink.evaluation.measures.clusters import (
    ABSENT,
    ClusterFigures,
    Coreference,
    adjusted_rand_index,
    cluster_figures,
    labels_of,
    neighbour_recall,
)
from kglink.evaluation.measures.end_to_end import Answer, JudgedText, PrecisionRecall
from kglink.records import EntityId, Mention

MENTIONS = "123456789ABC"


def of(*clusters: str) -> ClusterFigures:
    """Judged by the truth of Luo's example: {1 2 3 4 5} {6 7} {8 9 A B C}."""
    return cluster_figures(labels(clusters), labels(["12345", "67", "89ABC"]))


def labels(clusters: Iterable[str]) -> IntArray:
    numbers = {one: number for number, cluster in enumerate(clusters) for one in cluster}
    return np.array([numbers[one] for one in MENTIONS])


@pytest.mark.parametrize(
    ("clusters", "b_cubed", "ceaf_m", "ceaf_e"),
    [
        (["12345", "6789ABC"], 0.865, 0.833, 0.733),
        (["1234589ABC", "67"], 0.737, 0.583, 0.667),
        ([MENTIONS], 0.545, 0.417, 0.294),
        (list(MENTIONS), 0.400, 0.250, 0.178),
        (["12345", "67", "89ABC"], 1, 1, 1),
    ],
)
def test_the_published_example(
    clusters: list[str], b_cubed: float, ceaf_m: float, ceaf_e: float
) -> None:
    """Luo, On Coreference Resolution Performance Metrics (2005), table 1: F-measures."""
    found = of(*clusters)
    figures = found.b_cubed.f1, found.ceaf_m.f1, found.ceaf_e.f1
    assert figures == pytest.approx((b_cubed, ceaf_m, ceaf_e), abs=0.0006)


def test_one_answer_for_all_by_hand() -> None:
    found = of(MENTIONS)
    assert found.b_cubed == pytest.approx(((25 + 4 + 25) / 144, 1, 2 * 54 / (54 + 144)))
    assert (found.ari, found.nmi) == (0, 0)
    assert (found.mentions, found.gold_clusters, found.found_clusters) == (12, 3, 1)


def twin(found: Sequence[int], gold: Sequence[int]) -> list[tuple[float, float]]:
    """Precision and recall of B-cubed and both CEAF by their definitions."""
    ours, theirs = sets(found), sets(gold)
    answered, annotated = (sum(map(len, side.values())) for side in (ours, theirs))
    shared = [[len(one & other) for other in theirs.values()] for one in ours.values()]
    alike = [
        [2 * len(one & other) / (len(one) + len(other)) for other in theirs.values()]
        for one in ours.values()
    ]
    mentions, clusters = best_sum(shared), best_sum(alike)
    return [
        (in_cluster(found, ours, gold, theirs), in_cluster(gold, theirs, found, ours)),
        (ratio(mentions, answered), ratio(mentions, annotated)),
        (ratio(clusters, len(ours)), ratio(clusters, len(theirs))),
    ]


def sets(side: Sequence[int]) -> dict[int, set[int]]:
    members: dict[int, set[int]] = defaultdict(set)
    for at, label in enumerate(side):
        if label != ABSENT:
            members[label].add(at)
    return dict(members)


def in_cluster(
    ours: Sequence[int], own: dict[int, set[int]], theirs: Sequence[int], other: dict[int, set[int]]
) -> float:
    """The mean over our mentions of the share of their cluster that is theirs too."""
    each = [
        len(own[label] & other.get(theirs[at], set())) / len(own[label])
        for at, label in enumerate(ours)
        if label != ABSENT
    ]
    return ratio(sum(each), len(each))


def best_sum(weights: Sequence[Sequence[float]]) -> float:
    """By trying every assignment of the rows, or of the columns if they are fewer."""
    rows = [list(row) for row in weights]
    if rows and len(rows) > len(rows[0]):
        rows = [list(column) for column in zip(*rows, strict=True)]
    if not rows:
        return 0.0
    return max(
        sum(row[at] for row, at in zip(rows, order, strict=True))
        for order in permutations(range(len(rows[0])), len(rows))
    )


def ratio(part: float, whole: int) -> float:
    return part / whole if whole else 0.0


def test_any_clusters_are_judged_as_defined() -> None:
    rng = np.random.default_rng(5)
    for _ in range(150):
        count = rng.integers(1, 30)
        found, gold = (rng.integers(ABSENT, rng.integers(1, 6), count) for _ in range(2))
        ours = cluster_figures(found, gold)
        if (found == ABSENT).all() and (gold == ABSENT).all():
            assert ours.b_cubed == PrecisionRecall(1, 1, 1)
            continue
        theirs = twin(found.tolist(), gold.tolist())
        for one, (precision, recall) in zip(
            (ours.b_cubed, ours.ceaf_m, ours.ceaf_e), theirs, strict=True
        ):
            assert one[:2] == pytest.approx((precision, recall))
        known = gold != ABSENT
        alone = np.where(found == ABSENT, 100 + np.arange(count), found)[known]
        if known.any():
            assert ours.ari == pytest.approx(adjusted_rand_score(gold[known], alone))
            assert ours.nmi == pytest.approx(normalized_mutual_info_score(gold[known], alone))


def test_the_best_pairs_need_a_search_where_none_outweighs_its_rivals() -> None:
    # Each of three found clusters shares 3, 2 and 2 mentions with three gold ones, in a circle.
    counts = [[3, 2, 2], [2, 3, 2], [2, 2, 3]]
    found = np.repeat([0, 0, 0, 1, 1, 1, 2, 2, 2], np.ravel(counts))
    gold = np.repeat([0, 1, 2] * 3, np.ravel(counts))
    assert cluster_figures(found, gold).ceaf_m.precision == pytest.approx(9 / 21)


def test_labels_of_names() -> None:
    assert labels_of(["b", None, "a", "b"]).tolist() == [0, ABSENT, 1, 0]
    assert adjusted_rand_index("aabb", "xxyy") == 1
    assert adjusted_rand_index("abab", "xxyy") == pytest.approx(-0.5)


def test_no_mentions_at_all() -> None:
    none = np.empty(0, np.int64)
    found = cluster_figures(none, none)
    assert (found.mentions, found.ari, found.nmi) == (0, 1, 1)
    assert found.b_cubed == found.ceaf_e == PrecisionRecall(1, 1, 1)


# --------------------------------------------------------------------------- mention recall
def test_mention_recall_by_hand() -> None:
    gold = np.array([0, 0, 0, 1, 1, 2])
    near = np.array([[1, 3], [3, 4], [0, 1], [4, 0], [0, 5], [1, -1]])
    # One of two, none of two, both; its only like; not; the last has none like it.
    assert neighbour_recall(near, gold) == pytest.approx((1 / 2 + 0 + 1 + 1 + 0) / 5)
    # Of two others one fits into one neighbour.
    assert neighbour_recall(near[:, :1], gold) == pytest.approx((1 + 0 + 1 + 1 + 0) / 5)
    assert neighbour_recall(near[3:], np.array([0, 1, 2])) is None


# --------------------------------------------------------------------------- gathered
ADA, BOB = EntityId("kb", "ada"), EntityId("kb", "bob")


def judged(*, complete: bool) -> ClusterFigures:
    text = AnnotatedText(
        "docs",
        ("1",),
        "Ada Ada Bob Eve Eve X",
        (
            Mention(0, 3, "Ada", (ADA,)),
            Mention(4, 7, "Ada", (ADA,)),
            Mention(8, 11, "Bob", (BOB,)),
            Mention(12, 15, "Eve", None),
            Mention(16, 19, "Eve", ()),
        ),
    )
    eve = (EntityId("", "E"),)
    found = Coreference({(text.text, 12, 15): eve}, complete=complete)
    found.add_answers(
        JudgedText(text, ("kb",)),
        [
            Answer(0, 3, ADA),
            Answer(4, 7, ADA),
            Answer(8, 11, ADA),
            Answer(12, 15, None),
            Answer(16, 19, None, cluster="new"),
            Answer(20, 21, None, cluster="new"),
        ],
    )
    return found.figures()


def test_answers_of_a_text_are_clusters() -> None:
    found = judged(complete=True)
    # Nobody said whether the second Eve is the first, so that it counts nowhere.
    assert (found.mentions, found.gold_clusters) == (4, 3)
    assert (found.found, found.found_clusters) == (5, 3)
    assert found.b_cubed.precision == pytest.approx((2 / 3 + 2 / 3 + 1 / 3 + 1 + 0) / 5)
    assert found.b_cubed.recall == 1
    assert found.as_json()["mention_recall@64"] is None


def test_golds_are_one_thing_in_any_order_and_nil_answers_are_alone() -> None:
    mentions = Mention(0, 3, "Ada", (ADA, BOB)), Mention(4, 7, "Ada", (BOB, ADA))
    text = AnnotatedText("docs", ("1",), "Ada Ada of Bob", mentions)
    found = Coreference()
    found.add_answers(
        JudgedText(text, ("kb",)), [Answer(8, 10, None), Answer(8, 14, None), Answer(11, 14, None)]
    )
    figures = found.figures()
    assert (figures.mentions, figures.gold_clusters) == (2, 1)
    assert (figures.found, figures.found_clusters) == (3, 3)


def test_where_texts_are_annotated_in_part_answers_elsewhere_do_not_count() -> None:
    found = judged(complete=False)
    assert (found.found, found.found_clusters) == (4, 2)
    assert found.b_cubed.precision == pytest.approx((2 / 3 + 2 / 3 + 1 / 3 + 1) / 4)
