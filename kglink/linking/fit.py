"""Fitting the scoring of a trained model's space to mentions whose answers are known.

What is fitted is how much names count beside the context: the weight under which most mentions have
a right answer first, among all that one KB has for it. The weight that nobody has fitted stays
unless another is better by more than chance, so a few mentions change nothing. The probability of
the best answer is then fitted to the scores that it gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from kglink.errors import UsageError
from kglink.linking.candidates import CandidateSearch
from kglink.linking.scoring import EVIDENCE, Calibration, Evidence, FusionWeights, Scoring
from kglink.records import Candidate, Document, EntityId, MentionInText, OnProgress, Progress

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

#: More mentions than this teach nothing new; they are taken from all documents alike.
MOST_MENTIONS = 4000
_BATCH = 256
_CALIBRATION_PRIOR = 0.05
#: How much names may count for each part of the context: between .1 and .4 recall hardly changes.
NAME_SHARES = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0)
#: So many of them is what a gain by chance may look like.
_STANDARD_ERRORS = 2


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

    def first_is_right(self, weights: FusionWeights) -> BoolArray:
        """For each mention whether its best candidate is right; of equal ones the first is best."""
        scores = weights.score(_by_kind(self.evidence))
        counts = np.diff(np.append(self.starts, len(scores)))
        best = np.maximum.reduceat(scores, self.starts)
        places = np.flatnonzero(scores == np.repeat(best, counts))
        first: BoolArray = self.right[places[np.searchsorted(places, self.starts)]]
        return first


def fit_scoring(
    search: CandidateSearch,
    documents: Iterable[Document],
    kbs: Sequence[str],
    *,
    progress: OnProgress = lambda _: None,
) -> Scoring:
    """Fit the weight of names and the calibration, beginning with those of the search."""
    judged = _spread(list(_judged(documents, kbs)))
    rankings = _rankings(search, judged, kbs, progress)
    start = search.scoring
    weights, before, after = fit_names(rankings, start.weights)
    fitted = replace(start, weights=weights, mentions=len(judged), recall=(before, after))
    return replace(fitted, calibration=fit_calibration(rankings, fitted))


def fit_names(rankings: Rankings, start: FusionWeights) -> tuple[FusionWeights, float, float]:
    """The weights, and the share of mentions with a right answer first before and after."""
    before = rankings.first_is_right(start)
    tried = [replace(start, name=weight) for weight in NAME_SHARES]
    found = [rankings.first_is_right(weights) for weights in tried]
    best = int(np.argmax([right.mean() for right in found]))
    gain = found[best].astype(np.float64) - before
    if gain.mean() <= _STANDARD_ERRORS * gain.std() / np.sqrt(len(gain)):
        return start, float(before.mean()), float(before.mean())
    return tried[best], float(before.mean()), float(found[best].mean())


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


def _decisions(rankings: Rankings, scoring: Scoring) -> tuple[FloatArray, FloatArray]:
    """For each ranking how near its best candidate is, its lead, and one; whether it is right."""
    facts, right = [], []
    stops = np.append(rankings.starts[1:], len(rankings.right))
    columns = [EVIDENCE.index(name) for name in scoring.strength]
    for start, stop in zip(rankings.starts, stops, strict=True):
        evidence = rankings.evidence[start:stop]
        scores = scoring.weights.score(_by_kind(evidence))
        best = int(np.argmax(scores))
        rival = np.delete(scores, best).max(initial=0.0) if len(scores) > 1 else 0.0
        facts.append((evidence[best, columns].max(), scores[best] - rival, 1.0))
        right.append(rankings.right[start + best])
    return np.array(facts, dtype=np.float64), np.array(right, dtype=np.float64)


def _judged(
    documents: Iterable[Document], kbs: Sequence[str]
) -> Iterator[tuple[MentionInText, frozenset[EntityId]]]:
    """The mentions with an answer in one of the KBs."""
    for document in documents:
        for mention in document.mentions:
            gold = frozenset(one for one in mention.gold or () if one.kb in kbs)
            if gold:
                yield MentionInText(document.text, mention.start, mention.end), gold


def _spread(
    judged: list[tuple[MentionInText, frozenset[EntityId]]],
) -> list[tuple[MentionInText, frozenset[EntityId]]]:
    """All of them, or so many from all places alike."""
    if not judged:
        raise UsageError(
            "no mention of these documents has its answer in the space",
            hint="Give annotated documents that link to its KBs.",
        )
    count = min(len(judged), MOST_MENTIONS)
    return [judged[at * len(judged) // count] for at in range(count)]


def _rankings(
    search: CandidateSearch,
    judged: Sequence[tuple[MentionInText, frozenset[EntityId]]],
    kbs: Sequence[str],
    progress: OnProgress,
) -> Rankings:
    """All candidates of the mentions, in the KBs that hold an answer."""
    found: list[_Ranking] = []
    for first in range(0, len(judged), _BATCH):
        batch = judged[first : first + _BATCH]
        answers = search.find([mention for mention, _ in batch], kbs, limit=1 << 30)
        for (_, gold), by_kb in zip(batch, answers, strict=True):
            wanted = {one.kb for one in gold}
            found += [_ranking(by_kb[kb], gold) for kb in kbs if kb in wanted and by_kb[kb]]
        done = first + len(batch)
        progress(Progress("fitting the scoring on mentions", done, len(judged)))
    counts = np.array([len(one.right) for one in found], dtype=np.int64)
    return Rankings(
        np.concatenate([one.evidence for one in found]),
        np.concatenate([one.right for one in found]),
        np.cumsum(counts) - counts,
    )


def _by_kind(evidence: FloatArray) -> Evidence:
    """A column for each kind."""
    return dict(zip(EVIDENCE, evidence.T.astype(np.float32), strict=True))


def _ranking(candidates: Sequence[Candidate], gold: frozenset[EntityId]) -> _Ranking:
    values = [[one.evidence[name] for name in EVIDENCE] for one in candidates]
    right = [one.id in gold for one in candidates]
    return _Ranking(np.array(values, dtype=np.float64), np.array(right, dtype=np.bool_))
