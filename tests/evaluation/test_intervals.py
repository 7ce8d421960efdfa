"""Intervals of figures: by hand where one can, and as wide as they should be."""

from __future__ import annotations

import numpy as np
import pytest

from kglink.evaluation.measures.end_to_end import Score
from kglink.evaluation.measures.retrieval import figures_of, intervals_of
from kglink.evaluation.significance import mean_interval, share_interval, text_intervals


def test_the_interval_of_a_share_is_wilsons() -> None:
    assert share_interval(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert share_interval(10, 10)[1] == 1.0
    assert share_interval(10, 10)[0] < 0.75  # ten of ten prove little
    assert share_interval(0, 0) == (0.0, 0.0)


def test_the_bootstrap_of_a_mean_is_as_wide_as_its_standard_error() -> None:
    low, high = mean_interval([0.0, 1.0], [400, 600])
    error = 1.96 * np.sqrt(0.6 * 0.4 / 1000)
    assert (low, high) == pytest.approx((0.6 - error, 0.6 + error), abs=0.005)
    assert mean_interval([0.5], [7]) == (0.5, 0.5)
    assert mean_interval([], []) == (0.0, 0.0)


def test_texts_are_drawn_whole() -> None:
    # All answers of a text are right or wrong together: 40 texts are 40 coins, not 400.
    texts = [(10, 10, 10)] * 20 + [(0, 10, 10)] * 20
    precision, recall, f1 = text_intervals(texts)
    assert precision == recall == f1
    error = 1.96 * np.sqrt(0.25 / 40)
    assert precision == pytest.approx((0.5 - error, 0.5 + error), abs=0.03)
    assert text_intervals([(0, 0, 0)]) == ((1.0, 1.0),) * 3
    assert text_intervals([]) == ((0.0, 0.0),) * 3


def test_every_figure_lies_in_its_interval() -> None:
    ranks = {1: 30, 2: 10, 7: 4, 30: 3, None: 5}
    again = {1: 35, 2: 5, None: 12}
    figures, intervals = figures_of(ranks, again, (1, 64)), intervals_of(ranks, again, (1, 64))
    assert figures.keys() == intervals.keys()
    for name, (low, high) in intervals.items():
        assert 0 <= low < figures[name] < high <= 1, name
    score = Score()
    for text in [(1, 2, 3), (4, 4, 4), (0, 1, 0), (2, 3, 2)]:
        score.add(*text)
    for value, (low, high) in zip(score.micro, score.intervals(), strict=True):
        assert low <= value <= high
