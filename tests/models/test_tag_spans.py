"""Spans from a tagger's answers, which of them stay, and how sure they are."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.models.tag_spans import (
    LEAST,
    SpanCalibration,
    calibrated,
    spans_of_words,
    without_overlaps,
)
from kglink.records import Span

ANSWERS = st.lists(
    st.tuples(*[st.floats(0.01, 1)] * 3).map(lambda one: [part / sum(one) for part in one]),
    max_size=6,
)
SPANS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 5), st.sampled_from([0.2, 0.5, 0.9])).map(
        lambda one: Span(one[0], one[0] + one[1], one[2])
    ),
    max_size=8,
)


def test_a_span_is_as_likely_as_all_its_words() -> None:
    outside, begin, inside = [1, 0, 0], [0, 0.8, 0], [0.1, 0, 0.9]
    answers = np.array([outside, begin, inside, outside], np.float32)
    found = {(one.first, one.stop): one.score for one in spans_of_words(answers)}
    assert found == {(1, 3): pytest.approx(0.72), (1, 2): pytest.approx(0.08)}


def test_a_later_word_alone_begins_a_mention() -> None:
    answers = np.array([[1, 0, 0], [0, 0, 1], [1, 0, 0]], np.float32)
    assert [(one.first, one.stop) for one in spans_of_words(answers)] == [(1, 2)]


@given(ANSWERS)
def test_all_likely_spans_are_found(answers: list[list[float]]) -> None:
    def score(first: int, stop: int) -> float:
        before = answers[first - 1][0] if first else 1.0
        product = answers[first][1] + answers[first][2] * before
        for word in range(first + 1, stop):
            product *= answers[word][2]
        return product * (1 - (answers[stop][2] if stop < len(answers) else 0))

    rows = np.array(answers, np.float32).reshape(-1, 3)
    found = {(one.first, one.stop): one.score for one in spans_of_words(rows)}
    places = combinations(range(len(answers) + 1), 2)
    wanted = {place: score(*place) for place in places if score(*place) > LEAST + 1e-6}
    for place, likely in wanted.items():
        assert found[place] == pytest.approx(likely, abs=1e-5)


@given(SPANS)
def test_of_spans_that_overlap_the_likeliest_stay(spans: list[Span]) -> None:
    kept = without_overlaps(spans)
    assert kept == sorted(kept, key=lambda one: one.start)
    assert all(left.end <= right.start for left, right in pairwise(kept))
    for span in spans:
        if span not in kept:
            rivals = [one for one in kept if one.start < span.end and span.start < one.end]
            assert max(one.score for one in rivals) >= span.score


def held_out(scores: list[float], right: list[bool]) -> SpanCalibration:
    spans = [Span(10 * at, 10 * at + 5, score) for at, score in enumerate(scores)]
    golds = {(one.start, one.end) for one, is_right in zip(spans, right, strict=True) if is_right}
    return calibrated([(spans, golds)])


def test_scores_become_the_share_of_mentions() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.05, 0.95, 4000)
    found = held_out(scores.tolist(), (rng.uniform(size=4000) < scores**2).tolist())
    for score in (0.3, 0.6, 0.9):
        assert found.probability(score) == pytest.approx(score**2, abs=0.06)


def test_the_threshold_is_that_of_the_best_f1_or_of_a_recall() -> None:
    found = held_out([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [True, True, False, True, False, True])
    likely = [found.probability(score) for score in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)]
    # 4 mentions: after two spans P 1, R .5, F1 .67; after four .75, .75; after six .67, 1, F1 .8
    assert found.best.f1 == pytest.approx(0.8)
    assert found.threshold() < likely[-1]
    assert likely[2] < found.threshold(recall=0.5) < likely[1]
    assert found.threshold(recall=1.0) < likely[-1]


def test_without_held_out_mentions_scores_stay_as_they_are() -> None:
    nothing = calibrated([([], set())])
    assert nothing.probability(0.3) == pytest.approx(0.3)
    assert nothing.threshold() == 0.5
