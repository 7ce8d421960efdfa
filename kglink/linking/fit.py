"""Fitting how evidence is weighed, to mentions whose answers are known.

The weights are those of a conditional logit: the probability that a right candidate is chosen among
all that one KB has for a mention, exp(w x) / sum of exp(w x). No weight is negative, because every
kind of evidence can only speak for a candidate, and a prior keeps the weights near those that
nobody has fitted, so that few mentions change little. The new weights are kept only where they are
better on mentions of documents that they were not fitted to; a KB has weights of its own where
these are better still. Two probabilities are then fitted to the score of a KB's best candidate, on
mentions that mean nothing too: that it is right, and that the KB has what is meant at all. A
probability that was there before counts as much as some mentions do, and gives way only where
another is better, by more than chance, on documents that it was not fitted to.

Texts repeat their words, and what is right of a word once is right of it again: mentions of the
same words are one witness in every test against chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from kglink.arrays import BoolArray, DoubleArray, FloatArray, IntArray
from kglink.errors import UsageError
from kglink.files.digest import text_hash
from kglink.linking.candidates import CandidateSearch
from kglink.linking.contexts import spread
from kglink.linking.fit_probability import Foretold, fit_calibrations, is_gain
from kglink.linking.kinds import Evidence, Weights
from kglink.linking.memory import Memory
from kglink.linking.scoring import Calibration, Scoring
from kglink.records import Document, EntityId, MentionInText, OnProgress, Progress
from kglink.text.fold import fold as folded

#: More mentions than this teach nothing new; they are taken from all documents alike.
MOST_MENTIONS = 4000
#: `presence` is fitted only if this many different surfaces mean NIL.
LEAST_NIL = 10
_BATCH = 256
#: The number of a KB's best candidates that are weighed.
DEPTH = 32
#: How strongly the prior holds a weight, in mentions that contradict it.
_PRIOR = 4.0
#: The parts of the documents; what judges one part was fitted to the others.
FOLDS = 5


@dataclass(frozen=True, slots=True)
class Rankings:
    """Candidates of many mentions end to end; those of ranking i begin at ``starts[i]``."""

    kinds: tuple[str, ...]
    evidence: DoubleArray
    """A column for each kind."""
    right: BoolArray
    starts: IntArray
    folds: IntArray
    """For each ranking the part of the documents that its mention is in."""
    kbs: tuple[str, ...]
    of_kb: IntArray
    """For each ranking the place of its KB in ``kbs``."""
    answered: BoolArray
    """For each ranking whether the mention means something in its KB."""
    words: IntArray
    """For each ranking a number of its mention's words."""
    mentions: int = 0
    """How many mentions there are; one with answers in two KBs has two rankings."""

    def first_is_right(self, weights: Weights) -> BoolArray:
        """For each mention whether its best candidate is right; of equal ones the first is best."""
        first: BoolArray = self.right[self._best(weights.score(self.by_kind()))]
        return first

    def part(self, chosen: BoolArray) -> Rankings:
        """Some of the mentions."""
        counts = self._counts(len(self.right))
        rows = np.repeat(chosen, counts)
        kept = counts[chosen]
        return replace(
            self,
            evidence=self.evidence[rows],
            right=self.right[rows],
            starts=np.cumsum(kept) - kept,
            folds=self.folds[chosen],
            of_kb=self.of_kb[chosen],
            answered=self.answered[chosen],
            words=self.words[chosen],
        )

    def without(self, fold: int) -> Rankings:
        """The mentions that are not in one part of the documents."""
        return self.part(self.folds != fold)

    def in_kb(self, kb: str) -> BoolArray:
        """Which rankings are of a KB."""
        return np.asarray(self.of_kb == self.kbs.index(kb))

    def by_kind(self) -> Evidence:
        """The evidence as scores are made of it."""
        return dict(zip(self.kinds, self.evidence.T.astype(np.float32), strict=True))

    def decisions(self, weights: Weights) -> tuple[DoubleArray, DoubleArray]:
        """For each ranking its best score, its lead and what memory says of NIL; if it is right."""
        scores = weights.score(self.by_kind())
        best = self._best(scores)
        others = scores.copy()
        others[best] = -np.inf
        second = np.maximum.reduceat(others, self.starts)
        lead = scores[best] - np.where(np.isinf(second), 0, second)
        nil = self.evidence[best, self.kinds.index("nil")]
        facts = np.stack([scores[best], lead, -nil, np.ones(len(best))], axis=1)
        return facts.astype(np.float64), self.right[best].astype(np.float64)

    def _best(self, scores: FloatArray) -> IntArray:
        """The row of the best candidate of each ranking; of equal ones the first."""
        best = np.maximum.reduceat(scores, self.starts)
        places = np.flatnonzero(scores == np.repeat(best, self._counts(len(scores))))
        first: IntArray = places[np.searchsorted(places, self.starts)]
        return first

    def _counts(self, rows: int) -> IntArray:
        return np.diff(np.append(self.starts, rows))


def fit_rankings(rankings: Rankings, start: Scoring) -> Scoring:
    """Fit weights and calibration from ``start``; without mentions, return ``start``."""
    if not len(rankings.starts):
        return start
    weights, before, after = fit_weights(rankings.part(rankings.answered), start.weights)
    own: dict[str, Weights] = {}
    right: dict[str, Foretold] = {}
    present: dict[str, Foretold] = {}
    for kb in rankings.kbs:
        part = rankings.part(rankings.in_kb(kb))
        if not len(part.starts):
            continue
        answered = part.part(part.answered)
        fitted = fit_weights(answered, weights)[0]
        if fitted != weights:
            fitted = own[kb] = _in_measure_of(weights, fitted, answered)
        facts, first_is_right = part.decisions(fitted)
        right[kb] = Foretold(facts, first_is_right, part.folds, part.words)
        present[kb] = right[kb]._replace(true=part.answered.astype(np.float64))
    common, by_kb = fit_calibrations(right, start.calibration)
    presence = start.presence
    presence_by_kb: dict[str, Calibration] = {}
    # Documents with few marked NILs do not show how often a KB has no answer.
    if len(np.unique(rankings.words[~rankings.answered])) >= LEAST_NIL:
        presence, presence_by_kb = fit_calibrations(present, start.presence or start.calibration)
    return replace(
        start,
        weights=weights,
        weights_by_kb=own,
        mentions=rankings.mentions,
        recall=(before, after),
        calibration=common,
        calibration_by_kb=by_kb,
        presence=presence,
        presence_by_kb=presence_by_kb,
    )


def fit_weights(rankings: Rankings, start: Weights) -> tuple[Weights, float, float]:
    """The weights, and the share of mentions with a right answer first before and after.

    After: each mention judged by weights that were fitted without the documents beside it.
    """
    if not len(rankings.starts):
        return start, 0.0, 0.0
    before = rankings.first_is_right(start).astype(np.float64)
    after = np.zeros(len(before))
    for fold in np.unique(rankings.folds):
        inside = rankings.folds == fold
        if inside.all():
            return start, float(before.mean()), float(before.mean())
        fitted = conditional_logit(rankings.part(~inside), start)
        after[inside] = rankings.part(inside).first_is_right(fitted)
    gain = after - before
    if not is_gain(gain, rankings.words, errors=1):
        return start, float(before.mean()), float(before.mean())
    return conditional_logit(rankings, start), float(before.mean()), float(after.mean())


def conditional_logit(rankings: Rankings, start: Weights) -> Weights:
    """The weights under which right candidates are the most probable, held near the first ones."""
    found = np.logical_or.reduceat(rankings.right, rankings.starts)
    some = rankings.part(found)
    if not len(some.starts):
        return start
    facts = some.evidence
    owner = np.repeat(np.arange(len(some.starts)), some._counts(len(some.right)))
    first = np.array([start[kind] for kind in some.kinds])

    def cost(weights: DoubleArray) -> tuple[float, DoubleArray]:
        logits = facts @ weights
        everyone, shares = _shares(logits, owner, some.starts)
        right = np.where(some.right, logits, -np.inf)
        answers, of_right = _shares(right, owner, some.starts)
        return float((everyone - answers).sum()), facts.T @ (shares - of_right)

    # First fit one scale for all start weights; the prior leaves it free.
    sharp = minimize(
        lambda by: (
            (result := cost(first * float(by[0])))[0],
            np.array([result[1] @ first]),
        ),
        np.array([10.0]), jac=True, method="L-BFGS-B", bounds=[(0.1, 100.0)],
    ).x[0]  # fmt: skip
    centre = first * float(sharp)

    def held(weights: DoubleArray) -> tuple[float, DoubleArray]:
        loss, slope = cost(weights)
        away = (weights - centre) / float(sharp)
        return loss + _PRIOR * float(away @ away), slope + 2 * _PRIOR * away / float(sharp)

    best = minimize(held, centre, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(first)).x
    # In the measure of the first weights.
    weights = (best / float(sharp)).round(4).tolist()
    return Weights(dict(zip(some.kinds, weights, strict=True)))


def _in_measure_of(common: Weights, own: Weights, rankings: Rankings) -> Weights:
    """The own weights of a KB, which order it as before, but score as high as the common ones.

    Candidates of several KBs stand in one list by their scores: no KB may come first because its
    weights are larger.
    """
    by_common, by_own = (rankings.decisions(one)[0][:, 0].mean() for one in (common, own))
    if min(by_common, by_own) <= 0:
        return own
    factor = float(by_common / by_own)
    return Weights({kind: round(weight * factor, 4) for kind, weight in own.by_kind.items()})


def _shares(
    logits: DoubleArray, owner: IntArray, starts: IntArray
) -> tuple[DoubleArray, DoubleArray]:
    """For each mention the logarithm of the sum of its candidates' odds, and their shares of it."""
    most = np.maximum.reduceat(logits, starts)
    odds = np.exp(logits - most[owner])
    sums = np.add.reduceat(odds, starts)
    return most + np.log(sums), odds / sums[owner]


def judged_rankings(
    search: CandidateSearch,
    documents: Sequence[Document],
    kbs: Sequence[str],
    memory_without: Callable[[Sequence[Document]], Memory | None],
    progress: OnProgress = lambda _: None,
    *,
    most: int = MOST_MENTIONS,
    depth: int = DEPTH,
    each: Callable[[MentionInText, frozenset[EntityId], str], None] = lambda *_: None,
) -> Rankings:
    """The best candidates of mentions with known answers, in the KBs that hold an answer.

    ``memory_without`` is the memory that some documents are not a part of: what they say
    themselves must not count as remembered. What means nothing has a ranking in each KB, without
    a right candidate. Each KB gives at most ``depth`` candidates. ``each`` is called for every
    ranking with its mention, what is right, and the KB.
    """
    judged = judged_mentions(documents, kbs, most)
    if not any(one.gold for one in judged):
        raise UsageError(
            "no mention of these documents has its answer in the space",
            hint="Give annotated documents that link to its KBs.",
        )
    parts = [[one for one in documents if fold_of(one) == fold] for fold in range(FOLDS)]
    evidence: list[DoubleArray] = []
    right: list[BoolArray] = []
    facts: list[tuple[int, int, bool, int]] = []
    words: dict[str, int] = {}
    kinds: tuple[str, ...] = ()
    done = 0
    for fold, part in enumerate(parts):
        own = [one for one in judged if one.fold == fold]
        asking = search.with_memory(memory_without(part))
        for first in range(0, len(own), _BATCH):
            batch = own[first : first + _BATCH]
            read = asking.as_read([mention for _, mention, _ in batch], kbs)
            answers = asking.find(read, kbs, limit=depth)
            for (_, mention, gold), by_kb in zip(batch, answers, strict=True):
                wanted = {one.kb for one in gold} or kbs
                for place, kb in enumerate(kbs):
                    if kb in wanted and by_kb[kb]:
                        kinds = tuple(by_kb[kb][0].evidence)
                        evidence.append(np.array([[*one.evidence.values()] for one in by_kb[kb]]))
                        right.append(np.array([one.id in gold for one in by_kb[kb]]))
                        word = words.setdefault(folded(mention.surface), len(words))
                        facts.append((fold, place, bool(gold), word))
                        each(mention, gold, kb)
            done += len(batch)
            progress(Progress("mentions", done, len(judged)))
    counts = np.array([len(one) for one in right])
    folds, of_kb, answered, numbers = map(np.array, zip(*facts, strict=True))
    return Rankings(
        kinds,
        np.concatenate(evidence),
        np.concatenate(right),
        np.cumsum(counts) - counts,
        folds,
        tuple(kbs),
        of_kb,
        answered,
        numbers,
        len(judged),
    )


def fold_of(document: Document) -> int:
    """The part that a document is in; what has one title is one document in several windows."""
    return text_hash(document.title or document.text) % FOLDS


class JudgedMention(NamedTuple):
    """A mention, what is right for it (nothing: no entity is), and the part of its document."""

    fold: int
    mention: MentionInText
    gold: frozenset[EntityId]


def judged_mentions(
    documents: Iterable[Document], kbs: Sequence[str], most: int
) -> list[JudgedMention]:
    """The mentions with an answer in one of the KBs, or that mean nothing.

    All of them, or ``most`` of them, spread evenly.
    """
    judged = [
        JudgedMention(
            fold_of(document),
            MentionInText(document.text, mention.start, mention.end, document.whole),
            gold,
        )
        for document in documents
        for mention in document.mentions
        if mention.gold is not None
        and ((gold := frozenset(one for one in mention.gold if one.kb in kbs)) or not mention.gold)
    ]
    return [judged[at] for at in spread(len(judged), most)]
