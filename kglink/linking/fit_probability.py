"""Fitting a probability to what came true: that an answer is right, or that a KB has what is meant.

A logistic model of a few facts of each ranking. The one before counts as much as some
mentions do, and is replaced only if the new one predicts documents that it was not fitted to
significantly better.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import astuple
from typing import NamedTuple

import numpy as np

from kglink.arrays import BoolArray, DoubleArray, IntArray
from kglink.linking.scoring import Calibration

#: The number of mentions that the old probability counts as.
_FORETOLD = 40
#: The bias may rise only if this many different surfaces were answered wrongly.
LEAST_WRONG = 5


class Foretold(NamedTuple):
    """Facts of some rankings, and the true outcome to predict for each."""

    facts: DoubleArray
    """The best score, the lead, what memory says of NIL, and a one."""
    true: DoubleArray
    folds: IntArray
    words: IntArray
    """For each ranking a number of its mention's words."""

    @classmethod
    def joined(cls, some: Collection[Foretold]) -> Foretold:
        """All of them."""
        return cls._make(map(np.concatenate, zip(*some, strict=True)))

    def part(self, chosen: BoolArray) -> Foretold:
        """Some of the rankings."""
        return Foretold._make(column[chosen] for column in self)

    def loss(self, calibration: Calibration) -> DoubleArray:
        """How wrong each probability is: minus the logarithm of that of what came true."""
        logits = self.facts @ np.array(astuple(calibration))
        loss: DoubleArray = np.logaddexp(0, logits) - self.true * logits
        return loss


def is_gain(gain: DoubleArray, words: IntArray, *, errors: float = 2.0) -> bool:
    """Whether gains sum up to more than some standard errors; equal words count as one."""
    _, places = np.unique(words, return_inverse=True)
    error = np.sqrt((np.bincount(places.reshape(-1), gain) ** 2).sum())
    return bool(gain.sum() > errors * error)


def fit_calibrations(
    foretold: Mapping[str, Foretold], start: Calibration
) -> tuple[Calibration, dict[str, Calibration]]:
    """One for all KBs, and those of KBs that have better ones of their own."""
    common = fit_calibration(Foretold.joined(foretold.values()), start)
    by_kb = {kb: fit_calibration(own, common) for kb, own in foretold.items()}
    return common, {kb: own for kb, own in by_kb.items() if own != common}


def fit_calibration(foretold: Foretold, start: Calibration) -> Calibration:
    """The probability of what came true; ``start`` where no other is better by more than chance."""
    gain = np.zeros(len(foretold.true))
    for fold in np.unique(foretold.folds):
        inside = foretold.folds == fold
        if inside.all():
            return start
        fitted = _calibrated(foretold.part(~inside), start)
        gain[inside] = foretold.part(inside).loss(start) - foretold.part(inside).loss(fitted)
    if not is_gain(gain, foretold.words):
        return start
    return _calibrated(foretold, start)


def _calibrated(foretold: Foretold, start: Calibration) -> Calibration:
    """The best one, where ``start`` foretold some mentions and these ones came besides."""
    first = np.array(astuple(start))
    share = _FORETOLD / (_FORETOLD + len(foretold.true))
    wanted = (1 - share) * foretold.true + share / (1 + np.exp(-foretold.facts @ first))

    def cost(values: DoubleArray) -> tuple[float, DoubleArray]:
        logits = foretold.facts @ values
        loss = np.sum(np.logaddexp(0, logits) - wanted * logits)
        return float(loss), foretold.facts.T @ (1 / (1 + np.exp(-logits)) - wanted)

    from scipy.optimize import minimize  # every `kglink link` would wait for it

    # Mentions that are all right do not show how weak a wrong answer's evidence is.
    wrong = len(np.unique(foretold.words[foretold.true == 0]))
    most_bias = None if wrong >= LEAST_WRONG else start.bias
    bounds = [(0.0, None), (0.0, None), (0.0, None), (None, most_bias)]
    best = minimize(cost, first, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Calibration(*best.round(4).tolist())
