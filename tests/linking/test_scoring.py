"""Scores, probabilities and ties, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kglink.errors import SpaceError
from kglink.linking.candidates import MEAN_CONTEXT
from kglink.linking.decide import LEAST_NEARNESS, Decision
from kglink.linking.kinds import RETRIEVED, Evidence, EvidenceKind, Weights, joint_ranking
from kglink.linking.scoring import (
    ALIAS_SCORING,
    MENTION_SCORING,
    NAME_SCORING,
    PLAIN_SCORING,
    SEARCH_SCORING,
    TRAINED_SCORING,
    Calibration,
    Scoring,
    write_scoring,
)
from kglink.plugins import DefaultWeights
from kglink.records import Candidate, EntityId, Link, MentionInText, Ranking
from rights import as_a_plain_user

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
    fitted = Scoring(Weights.of(memory=0.4), weights_by_kb={"k": Weights.of(memory=0.1)})
    assert fitted.with_kinds(kinds, trained=False).weights["acme/new"] == 0.2
    assert fitted.with_kinds(kinds, trained=False).weights_in("k")["acme/new"] == 0.2
    assert fitted.with_kinds(kinds, trained=True).weights.by_kind == {
        "memory": 0.4, "acme/new": 0.3,
    }  # fmt: skip


def scored(kb: str, key: str, score: float, popularity: float = 0) -> Candidate:
    return Candidate(EntityId(kb, key), key, score, popularity)


def test_the_probability_by_hand() -> None:
    calibration = Calibration(score=4, lead=2, nil=1, bias=-3)
    assert calibration.probability(0.5, 0.5, 0) == pytest.approx(0.5)
    assert calibration.probability(1, 1, 0) == pytest.approx(1 / (1 + np.exp(-3)))
    assert calibration.probability(1, 1, 1) == pytest.approx(1 / (1 + np.exp(-2)))
    assert 0 < calibration.probability(-1e9, 0, 0) < 1e-12


def test_beside_vectors_an_equal_name_scores_what_it_scores_there() -> None:
    equal = {kind: np.ones(1, np.float32) for kind in ("name", "similar", "exact", "title", "case")}
    by_names = PLAIN_SCORING.by_names(["atlas"], beside=False)
    beside = PLAIN_SCORING.by_names(["atlas"], beside=True)
    alone = float(by_names.weights_in("atlas").score(equal)[0])
    scored = float(beside.weights_in("atlas").score(equal)[0])
    # By vectors the name has the cosine one, and its text the mean one.
    vectors = {"alias": 1.0, "named_context": MEAN_CONTEXT}
    other = {**equal, **{kind: np.full(1, value, np.float32) for kind, value in vectors.items()}}
    assert alone == pytest.approx(1)
    assert scored == pytest.approx(float(beside.weights_in("wiki").score(other)[0]), abs=0.01)
    # The probability is the same, and no other KB's weights change.
    told = [
        one.probability(Candidate(EntityId("atlas", "x"), "x", score), score / 4)
        for one, score in ((by_names, alone), (beside, scored))
    ]
    assert told[0] == pytest.approx(told[1], abs=1e-4)
    assert beside.weights_in("wiki") == PLAIN_SCORING.weights


def test_a_kb_may_have_weights_and_a_calibration_of_its_own() -> None:
    scoring = Scoring(
        Weights.of(alias=1.0),
        Calibration(1, 0, 0, 0),
        {"b": Weights.of(memory=2.0)},
        {"b": Calibration(0, 0, 0, 0)},
    )
    assert scoring.weights_in("a")["alias"] == scoring.weights_in("b")["memory"] / 2 == 1
    assert scoring.counts("memory")
    assert not scoring.counts("title")
    assert scoring.probability(scored("a", "1", 0.0), 1.0) == 0.5
    assert scoring.probability(scored("a", "1", 1.0), 0.0) == pytest.approx(1 / (1 + np.exp(-1)))
    assert scoring.probability(scored("b", "1", 1.0), 0.0) == 0.5


def test_nil_is_what_the_surest_kb_leaves() -> None:
    """Whether a KB has what is meant, and whether its best candidate is that, are two questions."""
    scoring = Scoring(
        Weights.of(alias=1.0),
        Calibration(score=1, lead=0, nil=0, bias=-2),
        presence=Calibration(score=1, lead=0, nil=0, bias=0),
        presence_by_kb={"b": Calibration(score=0, lead=0, nil=0, bias=-3)},
    )

    def nil(*candidates: Candidate, scoring: Scoring = scoring) -> Link:
        decision = Decision(scoring, lambda left, right: 1.0, 0.9, 5, ("a", "b"), per_kb=True)
        return decision.link(Ranking(MentionInText("x", 0, 1), candidates))

    def leaves(logit: float) -> float:
        return 1 - 1 / (1 + float(np.exp(-logit)))

    one = nil(scored("a", "1", 1.0))
    assert one.chosen is None
    assert one.confidence == pytest.approx(leaves(1))
    assert one.probability == pytest.approx(1 - leaves(-1))
    # A second KB that hardly has it takes nothing from NIL; each KB answers by its own.
    both = nil(scored("a", "1", 1.0), scored("b", "1", 0.5))
    assert both.confidence == pytest.approx(leaves(1))
    assert [told.confidence for told in both.per_kb] == pytest.approx([leaves(1), leaves(-1.5)])
    # That the best is right says that it is there: `b` has 0.18 by this, 0.05 by its own.
    assert nil(scored("b", "1", 0.5)).confidence == pytest.approx(leaves(-1.5))
    assert nil().confidence == 1
    # Without a presence of its own, NIL is what the best candidate leaves.
    plain = nil(scored("a", "1", 1.0), scoring=replace(scoring, presence=None))
    assert plain.confidence == pytest.approx(1 - plain.probability)


# -------------------------------------------------------------------------------- several KBs
CALM = Scoring(Weights.of(alias=1.0), Calibration(score=1, lead=1, nil=0, bias=0))


def decided(near: float, *candidates: Candidate) -> float:
    """How sure the best candidate is, where all texts lie so near each other."""
    decision = Decision(CALM, lambda left, right: near, 0.0, 5)
    link = decision.link(Ranking(MentionInText("x", 0, 1), candidates))
    return link.confidence


def test_a_rival_of_the_same_kb_takes_from_the_lead() -> None:
    alone = decided(0, scored("a", "1", 1.0))
    assert alone == pytest.approx(1 / (1 + np.exp(-2)))
    both = decided(0, scored("a", "1", 1.0), scored("a", "2", 0.5))
    assert both == pytest.approx(1 / (1 + np.exp(-1.5)))
    assert decided(0, scored("a", "1", 1.0), scored("a", "2", 1.0)) == pytest.approx(
        1 / (1 + np.exp(-1)) / 2
    )


def test_a_rival_of_another_kb_counts_by_its_odds_and_its_distance() -> None:
    # Both alone have the odds e^2; that of another KB makes it two to one, if it is far away.
    pair = scored("a", "1", 1.0), scored("b", "1", 1.0)
    odds = np.exp(2)
    assert decided(0.0, *pair) == pytest.approx(odds / (1 + 2 * odds))
    assert decided(LEAST_NEARNESS / 2, *pair) == pytest.approx(odds / (1 + 1.5 * odds))
    # Near texts are no rivals, and what is the same by an overlap is none however far.
    assert decided(LEAST_NEARNESS, *pair) == pytest.approx(odds / (1 + odds))
    same = replace(pair[0], also=(EntityId("b", "1"),)), pair[1]
    assert decided(0.0, *same) == pytest.approx(odds / (1 + odds))


def test_joint_ranking_by_score_then_popularity_then_kb_order() -> None:
    by_kb = {
        "b": [scored("b", "1", 0.9), scored("b", "2", 0.5)],
        "a": [scored("a", "1", 0.9), scored("a", "2", 0.9, popularity=7), scored("a", "3", 0.1)],
    }
    ranked = joint_ranking(by_kb, ["b", "a"])
    assert [str(one.id) for one in ranked] == ["a:2", "b:1", "a:1", "b:2", "a:3"]
    assert [str(one.id) for one in joint_ranking(by_kb, ["a"])] == ["a:2", "a:1", "a:3"]


def test_a_scoring_that_may_not_be_kept_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SpaceError, match=f"folder {tmp_path} may not be written: ") as caught:
        as_a_plain_user(lambda: write_scoring(tmp_path, "f1", PLAIN_SCORING))
    tmp_path.chmod(0o700)
    assert "Check the rights of file and folder" in caught.value.hint
