"""One score from names and vectors, and the probability that the best answer is right.

Measured on the disease KBs (gold spans, each KB for itself, mean R@1 over DOID, NCIT and HP,
weights chosen on the train documents, figures on the dev documents): names alone .54, alias
vectors alone .62, this fusion .63. What made the difference: a similar name counts only where it
is very similar (its fourth power), since half a name is no evidence; a title is meant before a
synonym; the context decides between entities of one name and costs nothing elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for each of n candidates, a value in [-1, 1] each."""

    name: FloatArray
    """Cosine of the trigrams of the mention and of the candidate's most similar name."""
    exact: FloatArray
    """1 where a name of the candidate is the mention, folded."""
    title: FloatArray
    """1 where that name is the title."""
    case: FloatArray
    """1 where that name is the mention to the letter."""
    alias: FloatArray
    """Cosine of the mention's vector and the candidate's nearest alias vector."""
    context: FloatArray
    """Cosine of the vectors of the mention in its context and of the candidate's text."""

    def of(self, at: int) -> dict[str, float]:
        """The evidence for one candidate, rounded for people."""
        return {
            name: round(float(getattr(self, name)[at]), 4)
            for name in ("name", "exact", "title", "case", "alias", "context")
        }


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """How much each kind of evidence counts."""

    name: float = 0.12
    title: float = 0.05
    case: float = 0.03
    alias: float = 1.0
    context: float = 0.2

    def score(self, evidence: Evidence) -> FloatArray:
        """The weighted mean of the evidence, rounded so that equal evidence makes equal scores."""
        total = (
            self.name * np.maximum(evidence.name, 0) ** 4
            + self.title * evidence.title
            + self.case * evidence.case
            + self.alias * evidence.alias
            + self.context * evidence.context
        )
        weights = self.name + self.title + self.case + self.alias + self.context
        mean: FloatArray = np.round(total / weights, 5).astype(np.float32)
        return mean


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic model: probability that the best candidate of a KB is right.

    Fitted on the train mentions of NCBI Disease and BC5CDR whose answer is in the KB; on their
    dev mentions the expected calibration error is .05.
    """

    score: float = 7.1
    margin: float = 3.0
    bias: float = -5.15

    def probability(self, score: float, margin: float) -> float:
        """From the best score and its lead over the second of the same KB."""
        return 1 / (1 + math.exp(-(self.score * score + self.margin * margin + self.bias)))
