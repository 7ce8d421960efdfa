"""Fitting weights and probabilities on rankings that can be checked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import check_grad

from kglink.linking.fit import Rankings, _likelihood, fit_calibration, fit_weights
from kglink.linking.scoring import TRAINED_SCORING, TRAINED_WEIGHTS, Scoring

#: Name, exact, title, case, alias, context.
NOTHING = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def rankings(*given: tuple[list[tuple[float, ...]], list[int]]) -> Rankings:
    counts = [len(evidence) for evidence, _ in given]
    right = [at in golds for evidence, golds in given for at in range(len(evidence))]
    return Rankings(
        np.array([row for evidence, _ in given for row in evidence], dtype=np.float64),
        np.array(right),
        (np.cumsum(counts) - counts).astype(np.int64),
    )


def random_rankings(seed: int, count: int) -> Rankings:
    """The context tells the right one, the names say nothing, and there is some noise."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        rows = rng.uniform(0, 1, (6, 6))
        rows[:, 1] = rows[:, 1] > 0.7
        right = int(np.argmax(rows[:, 5] + rng.normal(0, 0.1, 6)))
        made.append(([tuple(row) for row in rows], [right]))
    return rankings(*made)


def test_features_are_what_the_weights_are_multiplied_with() -> None:
    some = random_rankings(1, 5)
    weights = np.array([0.12, 0.02, 0.03, 0.5, 1.0, 0.2])
    from kglink.linking.scoring import Evidence

    scores = TRAINED_WEIGHTS.score(Evidence(*some.evidence.T.astype(np.float32)))
    np.testing.assert_allclose(some.features @ weights / weights.sum(), scores, atol=1e-5)


def test_the_likelihood_by_hand() -> None:
    two = rankings(([NOTHING, NOTHING, NOTHING], [0]), ([NOTHING, NOTHING], [0, 1]))
    scores = np.array([math.log(2), 0.0, 0.0, 5.0, 7.0])
    likelihood, slope = _likelihood(scores, two)
    # exp gives 2 of 4 to the right one; where all are right, nothing can be learnt.
    assert likelihood == pytest.approx((math.log(0.5) + 0) / 2)
    assert slope == pytest.approx([0.25, -0.125, -0.125, 0, 0])


def test_the_slope_is_that_of_the_likelihood() -> None:
    some = random_rankings(2, 4)
    start = np.random.default_rng(3).normal(size=len(some.right))
    off = check_grad(lambda z: _likelihood(z, some)[0], lambda z: _likelihood(z, some)[1], start)
    assert off < 1e-6


def test_rankings_that_teach_nothing_are_left_out() -> None:
    some = rankings(
        ([NOTHING] * 3, []), ([NOTHING] * 2, [1]), ([NOTHING], [0]), ([NOTHING] * 4, [0, 3])
    )
    found = some.found()
    assert found.starts.tolist() == [0, 2]
    assert found.right.tolist() == [False, True, True, False, False, True]


def test_weights_go_to_the_evidence_that_tells() -> None:
    weights, before, after = fit_weights(random_rankings(4, 300), TRAINED_WEIGHTS)
    assert after > before + 0.05
    assert weights.context > 10 * max(weights.alias, weights.name, weights.title, weights.case)
    assert min(weights.alias, weights.name, weights.title, weights.case) >= 0
    total = [weights.name, weights.title, weights.case, weights.alias, weights.context]
    assert sum(total) + weights.named_context == pytest.approx(1.87, abs=1e-3)


def test_few_mentions_move_the_weights_little() -> None:
    def away(count: int) -> float:
        weights, _, _ = fit_weights(random_rankings(5, count), TRAINED_WEIGHTS)
        return abs(weights.alias - TRAINED_WEIGHTS.alias)

    assert away(1) < 0.1
    assert away(1) < away(20) < away(400)


def test_nothing_to_learn_from_leaves_the_weights() -> None:
    nothing = rankings(([NOTHING] * 2, [])).found()
    assert fit_weights(nothing, TRAINED_WEIGHTS) == (TRAINED_WEIGHTS, 0.0, 0.0)
    same = rankings(([NOTHING] * 2, [0])).found()
    weights, before, after = fit_weights(same, TRAINED_WEIGHTS)
    assert (weights, before) == (TRAINED_WEIGHTS, after)


def test_probabilities_are_as_often_right_as_they_say() -> None:
    some = random_rankings(6, 600)
    weights, _, _ = fit_weights(some.found(), TRAINED_WEIGHTS)
    scoring = Scoring(weights, strength=TRAINED_SCORING.strength)
    calibration = fit_calibration(some, scoring)
    fitted = Scoring(weights, calibration, TRAINED_SCORING.strength)
    said, right = [], []
    for start in some.starts:
        rows = some.evidence[start : start + 6]
        scores = some.features[start : start + 6] @ np.array(
            [weights.name, weights.title, weights.case, weights.alias, weights.context,
             weights.named_context]
        ) / 1.87  # fmt: skip
        best, rival = np.sort(scores)[[-1, -2]]
        at = int(np.argmax(scores))
        evidence = dict(zip(("alias", "context"), rows[at, 4:], strict=True))
        said.append(fitted.probability(evidence, best - rival))
        right.append(some.right[start + at])
    assert np.mean(said) == pytest.approx(np.mean(right), abs=0.02)
    # A small lead is less sure than a large one, and is so said.
    assert fitted.probability(evidence, 0.3) > fitted.probability(evidence, 0.0)
