"""Fitting the judge of spans to documents whose mentions are all annotated.

A logistic model of what the judge knows of each proposal, held near the weights that nobody has
fitted. The new weights are kept only where they tell mentions better in documents that they were
not fitted to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from kglink.linking.fit import FOLDS, fold_of
from kglink.linking.judge import FACTS, known_before, span_facts
from kglink.linking.memory import Memory
from kglink.linking.pipeline import Linker
from kglink.records import Document, OnProgress, Progress

FloatArray = npt.NDArray[np.float64]

#: More documents than this teach the judge nothing new; they are taken from all places alike.
MOST_DOCUMENTS = 200
#: How strongly a weight is held, in proposals that contradict it.
PRIOR = 4.0


def logistic(
    facts: FloatArray, right: FloatArray, weight: FloatArray, centre: FloatArray, prior: FloatArray
) -> FloatArray:
    """The weights of a logistic model, each held near its centre by its prior."""

    def cost(values: FloatArray) -> tuple[float, FloatArray]:
        logits = facts @ values
        away = values - centre
        loss = weight @ (np.logaddexp(0, logits) - right * logits) + prior @ away**2
        slope = facts.T @ (weight * (1 / (1 + np.exp(-logits)) - right)) + 2 * prior * away
        return float(loss), slope

    best: FloatArray = minimize(cost, centre, jac=True, method="L-BFGS-B").x
    return best


def fit_judge(
    linker: Linker,
    documents: Sequence[Document],
    *,
    memory_without: Callable[[Sequence[Document]], Memory | None] = lambda documents: None,
    progress: OnProgress = lambda _: None,
) -> dict[str, float]:
    """The judge's weights for a linker; empty where none are better than those it has.

    ``memory_without`` is the memory that some documents are not a part of.
    """
    count = min(len(documents), MOST_DOCUMENTS)
    chosen = [documents[at * len(documents) // count] for at in range(count)]
    parts: list[FloatArray] = []
    for fold in range(FOLDS):
        part = [one for one in chosen if fold_of(one) == fold]
        parts.append(_proposals(linker, part, memory_without(part)))
        progress(Progress("documents of the judge", sum(map(len, parts))))
    start = np.array([linker.judge.weights.get(name, 0.0) for name in FACTS])
    gain = sum(
        _loss(part, start) - _loss(part, _fitted([*parts[:at], *parts[at + 1 :]], start))
        for at, part in enumerate(parts)
        if len(part)
    )
    if gain <= 0:
        return {}
    return dict(zip(FACTS, _fitted(parts, start).round(3).tolist(), strict=True))


def _proposals(linker: Linker, documents: Sequence[Document], memory: Memory | None) -> FloatArray:
    """A row for each proposal of some documents: its facts, and whether it is a mention."""
    rows = []
    for document in documents:
        marked = {(one.start, one.end) for one in document.mentions}
        rankings = linker.proposed(document.text, memory)
        for one, known in zip(rankings, known_before(rankings, memory), strict=True):
            facts = span_facts(one, known, linker.scoring)
            is_right = (one.mention.start, one.mention.end) in marked
            rows.append([*(facts.get(name, 0.0) for name in FACTS), float(is_right)])
    return np.array(rows, dtype=np.float64).reshape(-1, len(FACTS) + 1)


def _fitted(parts: Sequence[FloatArray], start: FloatArray) -> FloatArray:
    rows = np.concatenate(parts)
    prior = np.full(len(FACTS), PRIOR)
    return logistic(rows[:, :-1], rows[:, -1], np.ones(len(rows)), start, prior)


def _loss(rows: FloatArray, weights: FloatArray) -> float:
    logits = rows[:, :-1] @ weights
    return float((np.logaddexp(0, logits) - rows[:, -1] * logits).sum())
