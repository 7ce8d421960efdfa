"""Fitting the judge of spans to documents whose mentions are all annotated.

A logistic model of what the judge knows of each proposal, held near the weights that nobody has
fitted. The new weights are kept only where they recognise mentions better in documents that they
were not fitted to, by more than chance. So is another threshold of links: only where those that are
chosen on the other documents have a better F1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from kglink.arrays import DoubleArray
from kglink.linking.contexts import spread
from kglink.linking.fit import FOLDS, fold_of
from kglink.linking.fit_probability import is_gain
from kglink.linking.judge import FACTS, remembered_facts, with_scores
from kglink.linking.pipeline import Linker
from kglink.linking.scoring import DEFAULT_THRESHOLD
from kglink.records import Document, EntityId, Link, OnProgress, Progress, Ranking

#: More documents than this teach the judge nothing new; they are taken from all places alike.
MOST_DOCUMENTS = 200
#: How strongly a weight is held, in proposals that contradict it.
PRIOR = 4.0
#: The thresholds to choose from: two digits are what a person sets, too.
_STEPS = 100


def logistic(
    facts: DoubleArray,
    right: DoubleArray,
    weight: DoubleArray,
    centre: DoubleArray,
    prior: DoubleArray,
) -> DoubleArray:
    """The weights of a logistic model, each held near its centre by its prior."""

    def cost(values: DoubleArray) -> tuple[float, DoubleArray]:
        logits = facts @ values
        away = values - centre
        loss = weight @ (np.logaddexp(0, logits) - right * logits) + prior @ away**2
        slope = facts.T @ (weight * (1 / (1 + np.exp(-logits)) - right)) + 2 * prior * away
        return float(loss), slope

    best: DoubleArray = minimize(cost, centre, jac=True, method="L-BFGS-B").x
    return best


class FittedJudge(NamedTuple):
    """How a space finds mentions and decides, fitted to documents."""

    weights: dict[str, float]
    """Of the judge; empty where none are better than those it has."""
    threshold: float
    """The least probability of a link."""
    links: LinksKept
    """The links at that threshold."""


class JudgedLink(NamedTuple):
    """What a place would be linked to: from which threshold down, and whether that is right."""

    least: float
    is_right: bool


class JudgedLinks(NamedTuple):
    """The links of some documents at any threshold, and how many mentions have an answer."""

    links: tuple[JudgedLink, ...]
    wanted: int

    @classmethod
    def joined(cls, some: Iterable[JudgedLinks]) -> JudgedLinks:
        """Those of all documents."""
        parts = list(some)
        return cls(tuple(one for part in parts for one in part.links), sum(p.wanted for p in parts))

    def at(self, threshold: float) -> LinksKept:
        """The links that a threshold keeps."""
        kept = [one.is_right for one in self.links if one.least >= threshold]
        return LinksKept(sum(kept), len(kept) - sum(kept), self.wanted)

    def best(self) -> float:
        """The threshold of the best F1; of several the one nearest to the default."""
        steps = [step / _STEPS for step in range(1, _STEPS)]
        return max(steps, key=lambda one: (self.at(one).f1, -abs(one - DEFAULT_THRESHOLD)))


class LinksKept(NamedTuple):
    """How many links are right and wrong, and how many mentions have an answer."""

    right: int = 0
    wrong: int = 0
    wanted: int = 0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        both = self.right + self.wrong + self.wanted
        return 2 * self.right / both if both else 0.0

    def worth(self, f1: float) -> float:
        """By how much they raise an F1 of all documents that is this one, but for a factor."""
        return 2 * self.right - f1 * (self.right + self.wrong)


class _Proposal(NamedTuple):
    """A place that may be a mention: its facts, and the link that it would be."""

    facts: tuple[float, ...]
    is_mention: bool
    place: Ranking
    """Without its candidates."""
    probability: float
    """That the link is right, if the place is a mention."""
    is_right: bool | None
    """Whether it is; None where it has none, or nobody said."""


class _Text(NamedTuple):
    """The proposals of a document, and how many of its mentions have an answer."""

    proposals: list[_Proposal]
    wanted: int


def fit_judge(
    linker_without: Callable[[Sequence[Document]], Linker],
    documents: Sequence[Document],
    progress: OnProgress = lambda _: None,
) -> FittedJudge:
    """The judge's weights, and the threshold of the best F1.

    ``linker_without`` is a linker that links everything, with the memory that some documents are
    not a part of. Its detectors must not know their words either: what was learnt from a document
    is found there too easily, and new words are then held for too little.
    """
    chosen = [documents[at] for at in spread(len(documents), MOST_DOCUMENTS)]
    parts: list[list[_Text]] = []
    for fold in range(FOLDS):
        part = [one for one in chosen if fold_of(one) == fold]
        linker = linker_without(part)
        parts.append(list(_texts(linker, part)))
        progress(Progress("documents of the judge", sum(map(len, parts)), len(chosen)))
    rows = [[_rows(text) for text in part] for part in parts]
    start = np.array([linker.judge.weights.get(name, 0.0) for name in FACTS])
    without = [_fitted(chain(*rows[:at], *rows[at + 1 :]), start) for at in range(FOLDS)]
    is_better = _is_gain(
        [
            _loss(text, start) - _loss(text, own)
            for part, own in zip(rows, without, strict=True)
            for text in part
        ]
    )
    judged = [
        [_links(linker, text, own if is_better else start) for text in part]
        for part, own in zip(parts, without, strict=True)
    ]
    threshold = fit_threshold(judged)
    weights = _fitted(chain(*rows), start).round(3).tolist() if is_better else None
    return FittedJudge(
        dict(zip(FACTS, weights, strict=True)) if weights else {},
        threshold,
        JudgedLinks.joined(chain(*judged)).at(threshold),
    )


def fit_threshold(parts: Sequence[Sequence[JudgedLinks]]) -> float:
    """The threshold for documents like these, which are given in parts."""
    every = JudgedLinks.joined(chain(*parts))
    f1 = every.at(DEFAULT_THRESHOLD).f1
    gains: list[float] = []
    for at, part in enumerate(parts):
        chosen = JudgedLinks.joined(chain(*parts[:at], *parts[at + 1 :])).best()
        gains += [one.at(chosen).worth(f1) - one.at(DEFAULT_THRESHOLD).worth(f1) for one in part]
    return every.best() if _is_gain(gains) else DEFAULT_THRESHOLD


def _is_gain(gains: Sequence[float]) -> bool:
    """Whether documents gain more than chance would give them; fewer than five never do."""
    return is_gain(np.array(gains), np.arange(len(gains)))


def _texts(linker: Linker, documents: Sequence[Document]) -> Iterator[_Text]:
    for document in documents:
        golds = {(one.start, one.end): one.gold for one in document.mentions}
        plain = linker.read(document.text)
        rankings = linker.proposed(plain.text)
        texts = zip(
            rankings,
            remembered_facts(rankings, linker.memory),
            map(linker.decided, with_scores(linker.described(rankings), [1.0] * len(rankings))),
            strict=True,
        )
        proposals = []
        for one, known, link in texts:
            facts = linker.judge.facts(one, known)
            place = plain.place(one.mention.start, one.mention.end)
            proposals.append(
                _Proposal(
                    tuple(facts.get(name, 0.0) for name in FACTS),
                    place in golds,
                    Ranking(one.mention, ()),
                    link.probability,
                    _is_right(link, golds.get(place, ())),
                )
            )
        yield _Text(proposals, sum(bool(gold) for gold in golds.values()))


def _is_right(link: Link, gold: tuple[EntityId, ...] | None) -> bool | None:
    """Whether a link is right; None where there is none, or nobody said."""
    if link.chosen is None or gold is None:
        return None
    if not {link.chosen.id, *link.chosen.also}.isdisjoint(gold):
        return True
    return None if gold and link.chosen.id.kb not in {one.kb for one in gold} else False


def _rows(text: _Text) -> DoubleArray:
    """A row for each proposal of a document: its facts, and whether it is a mention."""
    rows = [[*one.facts, float(one.is_mention)] for one in text.proposals]
    return np.array(rows, dtype=np.float64).reshape(-1, len(FACTS) + 1)


def _links(linker: Linker, text: _Text, weights: DoubleArray) -> JudgedLinks:
    """What a document is linked to at each threshold."""
    logits = _rows(text)[:, :-1] @ weights
    scores = (1 / (1 + np.exp(-np.clip(logits, -30, 30)))).tolist()
    judged = with_scores([one.place for one in text.proposals], scores)
    proposed = {(one.place.mention.start, one.place.mention.end): one for one in text.proposals}
    links: list[JudgedLink] = []
    for kept in linker.judge.apart(judged):
        one = proposed[kept.mention.start, kept.mention.end]
        if one.is_right is not None:
            links.append(JudgedLink(kept.mention.score * one.probability, one.is_right))
    return JudgedLinks(tuple(links), text.wanted)


def _fitted(texts: Iterable[DoubleArray], start: DoubleArray) -> DoubleArray:
    rows = np.concatenate([np.empty((0, len(FACTS) + 1)), *texts])
    prior = np.full(len(FACTS), PRIOR)
    return logistic(rows[:, :-1], rows[:, -1], np.ones(len(rows)), start, prior)


def _loss(rows: DoubleArray, weights: DoubleArray) -> float:
    logits = rows[:, :-1] @ weights
    return float((np.logaddexp(0, logits) - rows[:, -1] * logits).sum())
