"""Whether probabilities are what they say, in bins: for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class CalibrationBin(NamedTuple):
    """Pairs whose probability lies between ``low`` and ``high``, and what they turned out to be."""

    low: float
    high: float
    pairs: int
    mean_probability: float
    share_correct: float


def calibration(
    probabilities: Sequence[float], verdicts: Sequence[bool], bins: int = 10
) -> list[CalibrationBin]:
    """Predicted against observed shares in bins of equal width; empty bins are left out."""
    said, seen = np.asarray(probabilities, float), np.asarray(verdicts, float)
    numbers = np.minimum((said * bins).astype(int), bins - 1)
    return [
        CalibrationBin(
            low=number / bins,
            high=(number + 1) / bins,
            pairs=int((numbers == number).sum()),
            mean_probability=float(said[numbers == number].mean()),
            share_correct=float(seen[numbers == number].mean()),
        )
        for number in np.unique(numbers).tolist()
    ]


def calibration_error(bins: Sequence[CalibrationBin]) -> float:
    """The mean distance of predicted and observed shares (expected calibration error)."""
    total = sum(one.pairs for one in bins)
    gaps = (one.pairs * abs(one.mean_probability - one.share_correct) for one in bins)
    return sum(gaps) / total if total else 0.0
