"""Scores, probabilities and ties, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kglink.linking.candidates import joint_ranking
from kglink.linking.kinds import RETRIEVED, Evidence, EvidenceKind, Weights
from kglink.linking.scoring import (
    ALIAS_SCORING,
    MENTION_SCORING,
    NAME_SCORING,
    PLAIN_SCORING,
    SEARCH_SCORING,
    TRAINED_SCORING,
    Calibration,
    Scoring,
)
from kglink.plugins import DefaultWeights
from kglink.records import Candidate, EntityId

WEIGHTS = Weights.of(similar=0.2, title=0.1, case=0.1, alias=0.4, context=0.15, named_context=0.05)


def evidence(**values: float) -> Evidence:
    return {one.name: np.array([values.get(one.name, 0)], np.float32) for one in RETRIEVED}


@pytest.mark.parametrize(
    ("values", "score"),
    [
        ({"alias": 0.5}, 0.2),
        ({"name": 0.5, "similar": 0.0625}, 0.2 * 0.0625),
        ({"similar": 1, "exact": 1, "title": 1, "case": 1, "alias": 1, "context": 1}, 0.95),
        ({"alias": -1, "context": 0.5, "named_context": 0.5}, -0.3),
        ({"unheard_of": 1.0}, 0),
    ],
)
def test_the_score_is_the_weighted_sum(values: dict[str, float], score: float) -> None:
    assert WEIGHTS.score(evidence(**values))[0] == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize(
    "scoring",
    [PLAIN_SCORING, TRAINED_SCORING, NAME_SCORING, ALIAS_SCORING, MENTION_SCORING, SEARCH_SCORING],
)
def test_names_and_vectors_count_one_together(scoring: Scoring) -> None:
    measured = ("name", "similar", "title", "case", "alias", "context", "named_context")
    assert sum(scoring.weights[kind] for kind in measured) == pytest.approx(1)


def test_a_kind_that_was_not_fitted_counts_what_it_counts_by_default() -> None:
    kinds = [
        EvidenceKind("memory", "", DefaultWeights(9, 9)),
        EvidenceKind("acme/new", "", DefaultWeights(0.2, 0.3)),
    ]
    fitted = Scoring(Weights.of(memory=0.4))
    assert fitted.with_kinds(kinds, trained=False).weights["acme/new"] == 0.2
    assert fitted.with_kinds(kinds, trained=True).weights.by_kind == {
        "memory": 0.4, "acme/new": 0.3,
    }  # fmt: skip


def test_the_probability_by_hand() -> None:
    calibration = Calibration(alias=4, margin=2, bias=-3)
    assert calibration.probability(0.5, 0.5) == pytest.approx(0.5)
    assert calibration.probability(1, 1) == pytest.approx(1 / (1 + np.exp(-3)))


def scored(kb: str, key: str, score: float, popularity: float = 0) -> Candidate:
    return Candidate(EntityId(kb, key), key, score, popularity)


def test_joint_ranking_by_score_then_popularity_then_kb_order() -> None:
    by_kb = {
        "b": [scored("b", "1", 0.9), scored("b", "2", 0.5)],
        "a": [scored("a", "1", 0.9), scored("a", "2", 0.9, popularity=7), scored("a", "3", 0.1)],
    }
    ranked = joint_ranking(by_kb, ["b", "a"])
    assert [str(one.id) for one in ranked] == ["a:2", "b:1", "a:1", "b:2", "a:3"]
    assert [str(one.id) for one in joint_ranking(by_kb, ["a"])] == ["a:2", "a:1", "a:3"]
