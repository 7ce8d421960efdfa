"""Scores, probabilities and ties, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kglink.linking.candidates import joint_ranking
from kglink.linking.scoring import EVIDENCE, Calibration, Evidence, FusionWeights
from kglink.records import Candidate, EntityId

WEIGHTS = FusionWeights(name=0.2, title=0.1, case=0.1, alias=0.4, context=0.15, named_context=0.05)


def evidence(**values: float) -> Evidence:
    return {kind: np.array([values.get(kind, 0)], dtype=np.float32) for kind in EVIDENCE}


@pytest.mark.parametrize(
    ("values", "score"),
    [
        ({"alias": 0.5}, 0.2),
        ({"name": 0.5}, 0.2 * 0.0625),
        ({"name": 1, "exact": 1, "title": 1, "case": 1, "alias": 1, "context": 1}, 1),
        ({"alias": -1, "context": 0.5}, -0.325),
        ({"alias": -1, "context": 0.5, "exact": 1}, -0.3),
        ({"name": -0.5}, 0),
    ],
)
def test_the_score_is_the_weighted_mean(values: dict[str, float], score: float) -> None:
    assert WEIGHTS.score(evidence(**values))[0] == pytest.approx(score, abs=1e-5)


def test_weights_need_not_sum_to_one() -> None:
    double = FusionWeights(name=0.4, title=0.2, case=0.2, alias=0.8, context=0.3, named_context=0.1)
    some = evidence(name=0.9, alias=0.7, context=0.1)
    assert double.score(some) == pytest.approx(WEIGHTS.score(some))


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
