"""The judge of proposed spans: which are mentions, by what detectors and the linker say together.

A logistic model over a few facts of each proposal and of its best candidate; where proposals
overlap, those stay that together cover the most characters, each counted by its probability. The
weights are a table that people can read, `judge.json`. `kglink fit`, and publishing a trained
model, fit them anew where documents are annotated whole.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from kglink.linking.decide import heads_of, lead_of
from kglink.linking.detect import log_odds, probability
from kglink.linking.memory import Memory, Weighed, weighed
from kglink.linking.scoring import DEFAULT_THRESHOLD, Scoring
from kglink.records import NO_MENTION, MentionInText, Ranking
from kglink.text.fold import fold
from kglink.text.full_names import is_part_of_name
from kglink.text.name_words import name_key

if TYPE_CHECKING:
    from kglink.store.kinds import Kind

#: What is known of a proposal, for the weights of `judge.json`:
#: ``detector``  the log odds of what the detectors say
#: ``link``      the log odds of its best candidate being right, if it is a mention
#: ``expanded``  1 where the text says that it is short for a name of the best candidate
#: ``agreed``    the share of the other KBs that have as good a candidate; of one KB alone a half
#: ``bearers``   how many entities of the best candidate's KB have this name, in powers of ten
#: ``title``     1 where its words are the title of the best candidate
#: ``case``      1 where a name of the best candidate is written so, to the letter
#: ``noun``      where its words and the title are in lower case, the share of the KB's other titles
#: ``known``     log odds of its words being a mention where documents were learnt from; of words
#:             in a longer name what speaks against it alone
#: ``kind``      the same of things of the kind of its best candidate, where they are negative
FACTS = (
    "detector", "link", "expanded", "agreed", "bearers", "title", "case", "noun", "known", "kind",
    "bias",
)  # fmt: skip
#: A KB agrees if its best candidate scores at most this much below the best of all.
_NEAR = 0.1
_MOST_KNOWN = 3.0
#: Added to the marked and unmarked places of each kind, so that few say little.
_OF_ANY_KIND = 5.0


@dataclass(frozen=True, slots=True)
class SpanJudge:
    """Keeps the proposals that are mentions."""

    scoring: Scoring
    weights: Mapping[str, float]
    threshold: float
    """The least probability of a mention; the least of a link is the same number."""
    nested: bool = False
    """Whether mentions may lie in others."""
    proper: Mapping[str, float] = field(default_factory=dict)
    """The share of each KB's titles that are not in lower case."""

    def keep(self, rankings: Sequence[Ranking], memory: Memory | None) -> list[Ranking]:
        """Of the rankings of one text those of mentions, each with its probability; in order."""
        return self.likely(self.apart(self.judged(rankings, memory)))

    def judged(self, rankings: Sequence[Ranking], memory: Memory | None) -> list[Ranking]:
        """The rankings of one text, each with the probability that it is a mention."""
        pairs = zip(rankings, remembered_facts(rankings, memory), strict=True)
        facts = [self.facts(one, known) for one, known in pairs]
        weights = self.weights
        return with_scores(
            rankings,
            [
                probability(sum(weights.get(name, 0.0) * value for name, value in one.items()))
                for one in facts
            ],
        )

    def likely(self, judged: Iterable[Ranking]) -> list[Ranking]:
        """Those that are mentions."""
        return [one for one in judged if one.mention.given or one.mention.score >= self.threshold]

    def apart(self, judged: Sequence[Ranking]) -> list[Ranking]:
        """Those that stay where some overlap, in order, whatever the threshold is.

        The likely ones first, the others where they leave room: so a lower threshold only adds
        links, and a higher one only removes some.
        """
        likely: list[Ranking] = []
        others: list[Ranking] = []
        for one in judged:
            is_likely = one.mention.given or one.mention.score >= DEFAULT_THRESHOLD
            (likely if is_likely else others).append(one)
        add = _outermost_first if self.nested else _most_covering
        kept = add(others, add(likely, []))
        return sorted(kept, key=lambda one: (one.mention.start, one.mention.end))

    def facts(self, ranking: Ranking, remembered: Mapping[str, float]) -> dict[str, float]:
        """What speaks for a proposal being a mention, with what memory says of it."""
        facts = {"detector": log_odds(ranking.mention.score), **remembered, "bias": 1.0}
        if not ranking.candidates:
            return facts
        best = ranking.candidates[0]
        own = [one for one in ranking.candidates if one.id.kb == best.id.kb]
        heads = heads_of(ranking.candidates)
        near = sum(best.score - one.score <= _NEAR for one in heads)
        is_noun = ranking.mention.surface.islower() and best.title.islower()
        return {
            **facts,
            "link": log_odds(self.scoring.probability(best, lead_of(best, ranking.candidates))),
            "expanded": best.evidence.get("expanded", 0.0),
            "title": best.evidence.get("title", 0.0),
            "case": best.evidence.get("case", 0.0),
            "noun": self.proper.get(best.id.kb, 0.0) if is_noun else 0.0,
            "agreed": (near - 1) / (len(heads) - 1) if len(heads) > 1 else 0.5,
            "bearers": math.log10(max(1, sum(one.evidence.get("exact", 0.0) > 0 for one in own))),
        }


@cache
def default_weights() -> Mapping[str, float]:
    """The weights that no documents of the user's have been fitted to."""
    table: Mapping[str, float] = json.loads(
        files("kglink.linking").joinpath("judge.json").read_text(encoding="utf-8")
    )
    return table


def with_scores(rankings: Sequence[Ranking], scores: Sequence[float]) -> list[Ranking]:
    """The rankings with what they were judged to be; given mentions stay as they are."""
    return [
        one if one.mention.given else replace(one, mention=replace(one.mention, score=score))
        for one, score in zip(rankings, scores, strict=True)
    ]


def remembered_facts(rankings: Sequence[Ranking], memory: Memory | None) -> list[dict[str, float]]:
    """How much oftener surfaces, and things of their kind, were marked than not where learnt."""
    if memory is None or not rankings:
        return [{}] * len(rankings)
    folded = [fold(one.mention.surface) for one in rankings]
    keys = {name: name_key(name) for name in folded}
    meanings = memory.meanings(set(keys.values()))
    likeness = memory.likeness(one.mention.text for one in rankings)
    best = [one.candidates[0] if one.candidates else None for one in rankings]
    kinds = iter(memory.kinds((one.id.kb, one.title) for one in best if one))
    return [
        {
            "known": _known(one.mention, weighed(meanings.get(keys[name], ()), of), name),
            "kind": _doubt(next(kinds), dict(of)) if candidate else 0.0,
        }
        for one, name, of, candidate in zip(rankings, folded, likeness, best, strict=True)
    ]


def _known(mention: MentionInText, meanings: Sequence[Weighed], name: str) -> float:
    """Log odds of the words being marked; never positive within a longer name."""
    same = [one for one in meanings if one.folded == name]
    never = sum(one.times for one in same if one.entity == NO_MENTION)
    often = max((one.times for one in same if one.entity != NO_MENTION), default=0.0)
    preference = math.log((often + 0.5) / (never + 0.5)) if same else 0.0
    preference = min(max(preference, -_MOST_KNOWN), _MOST_KNOWN)
    is_part = preference > 0 and is_part_of_name(mention.text, mention.start, mention.end)
    return 0.0 if is_part else preference


def _doubt(kinds: Sequence[Kind], likeness: Mapping[str, float]) -> float:
    """The log odds of a kind being marked where it seldom is, else 0."""
    marked = unmarked = _OF_ANY_KIND
    for source, yes, no in kinds:
        weight = likeness.get(source, 1.0)
        marked += weight * yes
        unmarked += weight * no
    return max(min(math.log(marked / unmarked), 0.0), -_MOST_KNOWN)


def _most_covering(rankings: Sequence[Ranking], before: Sequence[Ranking]) -> list[Ranking]:
    """What was kept before, and the proposals beside it that cover the most, by probability."""
    taken = sorted((one.mention.start, one.mention.end) for one in before)
    taken_ends = [end for _, end in taken]

    def is_free(start: int, end: int) -> bool:
        at = bisect_right(taken_ends, start)
        return at == len(taken) or taken[at][0] >= end

    free = (one for one in rankings if is_free(one.mention.start, one.mention.end))
    order = sorted(free, key=lambda one: (one.mention.end, one.mention.start))
    ends = [one.mention.end for one in order]
    best = [0.0]
    back: list[int] = []
    for at, one in enumerate(order):
        last = bisect_right(ends, one.mention.start, 0, at)
        covered = best[last] + _gain(one)
        back.append(last if covered > best[at] else -1)
        best.append(max(covered, best[at]))
    kept = list(before)
    at = len(order)
    while at:
        if back[at - 1] >= 0:
            kept.append(order[at - 1])
            at = back[at - 1]
        else:
            at -= 1
    return kept


def _gain(ranking: Ranking) -> float:
    mention = ranking.mention
    # What was given stays, whatever lies across it.
    sure = 1e6 if mention.given else mention.score
    return sure * (mention.end - mention.start)


def _outermost_first(rankings: Sequence[Ranking], before: Sequence[Ranking]) -> list[Ranking]:
    """What was kept before, and the proposals that cross none of it; of two the better one."""
    kept = list(before)
    for one in sorted(rankings, key=lambda one: (-_gain(one), one.mention.start)):
        start, end = one.mention.start, one.mention.end
        if not any(
            other.mention.start < start < other.mention.end < end
            or start < other.mention.start < end < other.mention.end
            for other in kept
        ):
            kept.append(one)
    return kept
