"""Fitting the scoring of a trained model's space to mentions whose answers are known.

Weights make the right candidates of a mention likely among all that one KB has for it: softmax
over the fused score, L-BFGS from the weights that nobody has fitted, none below zero. Few mentions
move them little. The probability of the best answer is then fitted to the scores that they give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize, minimize_scalar

from kglink.errors import UsageError
from kglink.linking.queries import MentionQuery
from kglink.linking.retrieve import Retriever, Scored
from kglink.linking.scoring import Calibration, Evidence, FusionWeights, Scoring
from kglink.records import Document, EntityId

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

#: More mentions than this teach nothing new; they are taken from all documents alike.
MOST_MENTIONS = 4000
_BATCH = 256
#: The start counts as much as so many mentions that contradict it.
_PRIOR = 5.0
_CALIBRATION_PRIOR = 0.05
#: What the fused score is multiplied with in the softmax: the best of these is looked for.
_SHARPNESS = (0.5, 500.0)
_WEIGHTS = tuple(one.name for one in fields(FusionWeights))
_EVIDENCE = tuple(one.name for one in fields(Evidence))


class _Ranking(NamedTuple):
    """All candidates that one KB has for a mention with its answer in it."""

    evidence: FloatArray
    right: BoolArray


@dataclass(frozen=True, slots=True)
class Rankings:
    """Candidates of many mentions end to end; those of mention i begin at ``starts[i]``."""

    evidence: FloatArray
    right: BoolArray
    starts: IntArray

    @property
    def features(self) -> FloatArray:
        """What each weight is multiplied with; the score is their sum."""
        name, exact, title, case, alias, context = self.evidence.T
        similar = np.maximum(name, 0) ** 4
        return np.stack([similar, title, case, alias, context, exact * context], axis=1)

    def found(self) -> Rankings:
        """Those in which the right candidate is one among others."""
        counts = np.diff(np.append(self.starts, len(self.right)))
        some = np.add.reduceat(self.right, self.starts, dtype=np.int64)
        kept = (some > 0) & (some < counts)
        rows = np.repeat(kept, counts)
        starts = np.cumsum(counts[kept]) - counts[kept]
        return Rankings(self.evidence[rows], self.right[rows], starts)


def fit_scoring(
    retriever: Retriever,
    documents: Iterable[Document],
    kbs: Sequence[str],
    *,
    progress: Callable[[int], None] = lambda documents: None,
) -> Scoring:
    """Fit weights and calibration, beginning with those of the retriever."""
    judged = _spread(list(_judged(documents, kbs, progress)))
    rankings = _rankings(retriever, judged, kbs)
    start = retriever.scoring
    weights, before, after = fit_weights(rankings.found(), start.weights)
    fitted = replace(start, weights=weights, mentions=len(judged), likelihood=(before, after))
    return replace(fitted, calibration=fit_calibration(rankings, fitted))


def fit_weights(rankings: Rankings, start: FusionWeights) -> tuple[FusionWeights, float, float]:
    """The weights, and the mean log-likelihood of the right candidates before and after."""
    if not len(rankings.starts):
        return start, 0.0, 0.0
    first = np.array([getattr(start, name) for name in _WEIGHTS])
    features = rankings.features
    found = minimize_scalar(
        lambda log: -_likelihood(features @ first * np.exp(log), rankings)[0],
        bounds=np.log(_SHARPNESS),
        method="bounded",
    )
    sharp = features * np.exp(found.x)
    prior = _PRIOR / len(rankings.starts)

    def cost(weights: FloatArray) -> tuple[float, FloatArray]:
        likelihood, slope = _likelihood(sharp @ weights, rankings)
        away = weights - first
        return float(prior * away @ away - likelihood), 2 * prior * away - slope @ sharp

    best = minimize(cost, first, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(first)).x
    before, after = (_likelihood(sharp @ weights, rankings)[0] for weights in (first, best))
    if after <= before or not best.any():
        return start, before, before
    # The score is a mean, so that only the proportions count: keep the sum that the start has.
    shares = best * first.sum() / best.sum()
    values = {name: round(float(one), 5) for name, one in zip(_WEIGHTS, shares, strict=True)}
    return FusionWeights(**values), before, after


def fit_calibration(rankings: Rankings, scoring: Scoring) -> Calibration:
    """The probability that the best candidate is right, from how near it is and its lead."""
    start = scoring.calibration
    first = np.array([start.alias, start.margin, start.bias])
    facts, right = _decisions(rankings, scoring)
    prior = _CALIBRATION_PRIOR / len(right)

    def cost(values: FloatArray) -> tuple[float, FloatArray]:
        logits = facts @ values
        away = values - first
        loss = np.mean(np.logaddexp(0, logits) - right * logits)
        slope = facts.T @ (1 / (1 + np.exp(-logits)) - right) / len(right)
        return float(loss + prior * away @ away), slope + 2 * prior * away

    bounds = [(0.0, None), (0.0, None), (None, None)]
    best = minimize(cost, first, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Calibration(*(round(float(value), 4) for value in best))


def _likelihood(scores: FloatArray, rankings: Rankings) -> tuple[float, FloatArray]:
    """The mean log-probability of the right candidates, and its slope by each score."""
    whole, own = _softmax(scores, rankings.starts)
    right, of_right = _softmax(np.where(rankings.right, scores, -np.inf), rankings.starts)
    count = len(rankings.starts)
    return float((right - whole).mean()), (of_right - own) / count


def _softmax(scores: FloatArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
    """The logarithm of each ranking's sum of exponentials, and the share of each candidate."""
    counts = np.diff(np.append(starts, len(scores)))
    most = np.maximum.reduceat(scores, starts)
    weights = np.exp(scores - np.repeat(most, counts))
    sums = np.add.reduceat(weights, starts)
    return np.log(sums) + most, weights / np.repeat(sums, counts)


def _decisions(rankings: Rankings, scoring: Scoring) -> tuple[FloatArray, FloatArray]:
    """For each ranking how near its best candidate is, its lead, and one; whether it is right."""
    facts, right = [], []
    stops = np.append(rankings.starts[1:], len(rankings.right))
    columns = [_EVIDENCE.index(name) for name in scoring.strength]
    for start, stop in zip(rankings.starts, stops, strict=True):
        evidence = rankings.evidence[start:stop]
        scores = scoring.weights.score(Evidence(*evidence.T.astype(np.float32)))
        best = int(np.argmax(scores))
        rival = np.delete(scores, best).max(initial=0.0) if len(scores) > 1 else 0.0
        facts.append((evidence[best, columns].max(), scores[best] - rival, 1.0))
        right.append(rankings.right[start + best])
    return np.array(facts, dtype=np.float64), np.array(right, dtype=np.float64)


def _judged(
    documents: Iterable[Document], kbs: Sequence[str], progress: Callable[[int], None]
) -> Iterator[tuple[MentionQuery, frozenset[EntityId]]]:
    """The mentions with an answer in one of the KBs."""
    for document in documents:
        for mention in document.mentions:
            gold = frozenset(one for one in mention.gold or () if one.kb in kbs)
            if gold:
                yield MentionQuery(document.text, mention.start, mention.end), gold
        progress(1)


def _spread(
    judged: list[tuple[MentionQuery, frozenset[EntityId]]],
) -> list[tuple[MentionQuery, frozenset[EntityId]]]:
    """All of them, or so many from all places alike."""
    if not judged:
        raise UsageError(
            "no mention of these documents has its answer in the space",
            hint="Give annotated documents that link to its KBs.",
        )
    count = min(len(judged), MOST_MENTIONS)
    return [judged[at * len(judged) // count] for at in range(count)]


def _rankings(
    retriever: Retriever,
    judged: Sequence[tuple[MentionQuery, frozenset[EntityId]]],
    kbs: Sequence[str],
) -> Rankings:
    """All candidates of the mentions, in the KBs that hold an answer."""
    found: list[_Ranking] = []
    for first in range(0, len(judged), _BATCH):
        batch = judged[first : first + _BATCH]
        answers = retriever.retrieve([query for query, _ in batch], kbs, limit=1 << 30)
        for (_, gold), by_kb in zip(batch, answers, strict=True):
            wanted = {one.kb for one in gold}
            found += [_ranking(by_kb[kb], gold) for kb in kbs if kb in wanted and by_kb[kb]]
    counts = np.array([len(one.right) for one in found], dtype=np.int64)
    return Rankings(
        np.concatenate([one.evidence for one in found]),
        np.concatenate([one.right for one in found]),
        np.cumsum(counts) - counts,
    )


def _ranking(candidates: Sequence[Scored], gold: frozenset[EntityId]) -> _Ranking:
    values = [[one.evidence[name] for name in _EVIDENCE] for one in candidates]
    right = [one.id in gold for one in candidates]
    return _Ranking(np.array(values, dtype=np.float64), np.array(right, dtype=np.bool_))
