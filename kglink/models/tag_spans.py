"""From a tagger's answers to spans: how likely they are, and which of them stay.

A tagger says of each word how likely it is outside (O), the first (B) or a later word (I) of a
mention. A span's raw score is the probability of just these words: that one begins here, goes on
to its end and no farther.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.arrays import DoubleArray, FloatArray
from kglink.files.manifest import ManifestPart
from kglink.records import Span
from kglink.text.words import non_overlapping

#: How many answers there are, and their columns.
ANSWERS = 3
OUTSIDE, BEGIN, INSIDE = range(ANSWERS)
#: Spans with a lower score are never mentions.
LEAST = 0.02
#: Longer mentions than this many words are not found.
MOST_WORDS = 64
#: Points of the curve of precision and recall that are kept.
_POINTS = 40


class WordSpan(NamedTuple):
    """The words from ``first`` up to ``stop``, and how likely they are a mention."""

    first: int
    stop: int
    score: float


class CurvePoint(ManifestPart):
    """On held-out documents, spans from ``threshold`` on have this precision and recall."""

    threshold: float
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Their harmonic mean."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


class SpanCalibration(ManifestPart):
    """What held-out documents say of raw scores: ``sigmoid(scale * logit(score) + shift)``."""

    scale: float = 1.0
    shift: float = 0.0
    curve: tuple[CurvePoint, ...] = ()

    def probability(self, score: float) -> float:
        """The share of spans with this raw score that are mentions."""
        return float(_sigmoid(self.scale * _logit(score) + self.shift))

    @property
    def best(self) -> CurvePoint:
        """The point of the best F1."""
        nothing = CurvePoint(threshold=0.5, precision=0.0, recall=0.0)
        return max(self.curve, key=lambda point: point.f1, default=nothing)

    def threshold(self, recall: float = 0.0) -> float:
        """The least probability: of the best F1, or the highest that finds such a share."""
        if not recall:
            return self.best.threshold
        enough = [point.threshold for point in self.curve if point.recall >= recall]
        return max(enough, default=0.0)


def spans_of_words(answers: FloatArray) -> list[WordSpan]:
    """All spans of more than the least score; they may overlap. ``answers`` are (words, 3)."""
    spans: list[WordSpan] = []
    if not len(answers):
        return spans
    inside = answers[:, INSIDE].tolist()
    before = np.concatenate([[1.0], answers[:-1, OUTSIDE]])
    # A word that seems to go on with a mention begins one where none is before it.
    begins = answers[:, BEGIN] + answers[:, INSIDE] * before
    for first in np.flatnonzero(begins > LEAST).tolist():
        score = float(begins[first])
        for stop in range(first + 1, min(len(inside), first + MOST_WORDS) + 1):
            goes_on = inside[stop] if stop < len(inside) else 0.0
            if score * (1 - goes_on) > LEAST:
                spans.append(WordSpan(first, stop, score * (1 - goes_on)))
            score *= goes_on
            if score <= LEAST:
                break
    return spans


def without_overlaps(spans: Iterable[Span]) -> list[Span]:
    """Of spans that overlap the likeliest stays, of equals the longest; in reading order."""
    return non_overlapping(spans, lambda one: (-one.score, one.start - one.end, one.start))


#: Where mentions are.
Places = set[tuple[int, int]]


def calibrated(found: Sequence[tuple[Sequence[Span], Places]]) -> SpanCalibration:
    """Learn from held-out documents: the spans of each with raw scores, and its mentions."""
    known = [(span, (span.start, span.end) in golds) for spans, golds in found for span in spans]
    if not known:
        return SpanCalibration()
    scores = np.array([span.score for span, _ in known])
    scale, shift = _fit(_logit(scores), np.array([right for _, right in known], np.float64))
    fitted = SpanCalibration(scale=scale, shift=shift)
    kept = [
        (fitted.probability(span.score), (span.start, span.end) in golds)
        for spans, golds in found
        for span in without_overlaps(spans)
    ]
    mentions = sum(len(golds) for _, golds in found)
    points = tuple(_curve(sorted(kept, reverse=True), mentions))
    return fitted.model_copy(update={"curve": points})


def _curve(kept: Sequence[tuple[float, bool]], total: int) -> Iterator[CurvePoint]:
    """Points of equal distance in the number of spans, and that of the best F1."""
    right = np.cumsum([is_right for _, is_right in kept])
    counts = np.arange(1, len(kept) + 1)
    f1 = 2 * right / (counts + total)
    wanted = {*np.linspace(0, len(kept) - 1, _POINTS).astype(int).tolist(), int(f1.argmax())}
    for at in sorted(wanted):
        lower = kept[at + 1][0] if at + 1 < len(kept) else 0.0
        yield CurvePoint(
            threshold=(kept[at][0] + lower) / 2,
            precision=float(right[at] / (at + 1)),
            recall=float(right[at] / total) if total else 0.0,
        )


def _fit(values: DoubleArray, right: DoubleArray) -> tuple[float, float]:
    """Scale and shift of a logistic regression, held near (1, 0) by a little weight."""
    weights, prior = np.array([1.0, 0.0]), np.array([1.0, 0.0])
    rows = np.stack([values, np.ones_like(values)], axis=1)
    for _ in range(50):
        chance = _sigmoid(rows @ weights)
        slope = rows.T @ (chance - right) + (weights - prior)
        curve = (rows * (chance * (1 - chance))[:, None]).T @ rows + np.eye(2)
        step = np.linalg.solve(curve, slope)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    return max(float(weights[0]), 1e-3), float(weights[1])


def _logit(score: npt.ArrayLike) -> DoubleArray:
    values = np.clip(np.asarray(score, np.float64), 1e-6, 1 - 1e-6)
    return np.asarray(np.log(values) - np.log1p(-values))


def _sigmoid(value: npt.ArrayLike) -> DoubleArray:
    return np.asarray(1 / (1 + np.exp(-np.asarray(value, np.float64))))
