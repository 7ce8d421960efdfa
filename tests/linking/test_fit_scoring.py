"""Fitting weights and probabilities on rankings that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kglink.linking.fit import Rankings, fit_calibration, fit_names
from kglink.linking.scoring import (
    EVIDENCE,
    TRAINED_SCORING,
    TRAINED_WEIGHTS,
    Scoring,
)

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


def random_rankings(seed: int, count: int, names: float = 0.0) -> Rankings:
    """The context and so much of the names tell the right one, and there is some noise."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        rows = rng.uniform(0, 1, (6, 6))
        rows[:, 1] = rows[:, 1] > 0.7
        told = rows[:, 5] + names * rows[:, 0] ** 4
        right = int(np.argmax(told + rng.normal(0, 0.05, 6)))
        made.append(([tuple(row) for row in rows], [right]))
    return rankings(*made)


def test_the_first_of_the_best_counts() -> None:
    near, far = (0.0, 0.0, 0.0, 0.0, 0.0, 0.8), (0.0, 0.0, 0.0, 0.0, 0.0, 0.3)
    some = rankings(
        ([far, near], [1]),
        ([near, far], [1]),
        ([near, near], [0]),
        ([near, near], [1]),
        ([far], []),
    )
    right = some.first_is_right(TRAINED_WEIGHTS)
    assert right.tolist() == [True, False, True, False, False]


def test_names_count_as_much_as_they_tell() -> None:
    for told, least, most in ((0.0, 0.0, 0.06), (0.15, 0.1, 0.2), (0.6, 0.4, 1.0)):
        weights, before, after = fit_names(random_rankings(4, 2000, told), TRAINED_WEIGHTS)
        assert least <= weights.name <= most
        assert after >= before
        assert (weights == TRAINED_WEIGHTS) == (after == before)
        assert weights.context == TRAINED_WEIGHTS.context


def test_few_mentions_change_nothing() -> None:
    weights, before, after = fit_names(random_rankings(5, 3, 0.6), TRAINED_WEIGHTS)
    assert weights == TRAINED_WEIGHTS
    assert before == after
    nothing = rankings(([NOTHING] * 2, []))
    assert fit_names(nothing, TRAINED_WEIGHTS) == (TRAINED_WEIGHTS, 0.0, 0.0)


def test_probabilities_are_as_often_right_as_they_say() -> None:
    some = random_rankings(6, 600)
    weights = TRAINED_WEIGHTS
    scoring = Scoring(weights, strength=TRAINED_SCORING.strength)
    calibration = fit_calibration(some, scoring)
    fitted = Scoring(weights, calibration, TRAINED_SCORING.strength)
    said, right = [], []
    for start in some.starts:
        rows = some.evidence[start : start + 6]
        scores = weights.score(dict(zip(EVIDENCE, rows.T.astype(np.float32), strict=True)))
        best, rival = np.sort(scores)[[-1, -2]]
        at = int(np.argmax(scores))
        evidence = {"context": float(rows[at, 5])}
        said.append(fitted.probability(evidence, best - rival))
        right.append(some.right[start + at])
    assert np.mean(said) == pytest.approx(np.mean(right), abs=0.02)
    # A small lead is less sure than a large one, and is so said.
    assert fitted.probability(evidence, 0.3) > fitted.probability(evidence, 0.0)
