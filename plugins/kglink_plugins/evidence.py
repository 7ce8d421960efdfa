"""Evidence that is asked for the best candidates of the mentions of a text.

One document speaks of few things, and of related ones; and numbers agree: `AquaJet 3000` is not the
5000, and type IVA is type 4A.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from kglink.plugins import DefaultWeights
from kglink.records import Candidate, EntityId, Ranking
from kglink.text.abbreviations import long_form_of
from kglink.text.fold import fold
from kglink.text.name_words import name_words, numbers_of

#: How many surfaces speak for one thing at most; those after them say the same.
_MOST = 16
#: Of how many candidates of another mention it is said that they may be meant again.
_DEPTH = 3
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta",
    "η": "eta", "θ": "theta", "κ": "kappa", "λ": "lambda", "σ": "sigma", "ω": "omega",
}  # fmt: skip
_GREEK_NAMES = frozenset(_GREEK.values())
_GREEK_LETTER = re.compile("|".join(_GREEK))
#: After these a Roman number may have a letter: ``type IVA``.
_ROMAN_AND_LETTER = re.compile(
    r"\b(class|factor|grade|group|phase|stage|type|variant) (i{1,3}|iv|vi{0,3}|ix|x)([a-e])\b"
)


class Numbers:
    """-1 for candidates none of whose names has the numbers that the mention has."""

    weights = DefaultWeights(untrained=0.15, trained=0.15)

    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        """Each mention by itself; one without numbers says nothing."""
        values = []
        for mention, candidates in ((one.mention, one.candidates) for one in mentions):
            forms = mention.surface, long_form_of(mention.surface, mention.text)
            wanted = {numbers for form in forms if (numbers := numbers_in(form))}
            values.append([
                -float(all(numbers_in(name) not in wanted for name in (one.title, *one.aliases)))
                if wanted
                else 0.0
                for one in candidates
            ])  # fmt: skip
        return values


@lru_cache(maxsize=1 << 14)
def numbers_in(name: str) -> frozenset[str]:
    """What tells the members of a series apart: numbers, single letters, Greek letters, ``b46``."""
    folded = _GREEK_LETTER.sub(lambda letter: f" {_GREEK[letter[0]]} ", fold(name))
    words = name_words(" ".join(_ROMAN_AND_LETTER.sub(r"\1 \2 \3", folded).split()))
    return numbers_of(words) | {
        word for word in words if word in _GREEK_NAMES or any(map(str.isdigit, word))
    }


class SameInDocument:
    """How near a candidate is to the best one of another mention of the text, in other words.

    Where the other mention has all words of this one and more, it says nothing: "cancer" is not
    "breast cancer".
    """

    weights = DefaultWeights(untrained=0.06)

    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        """For each mention by what the others say; alone in its text it learns nothing."""
        best = best_candidates(mentions, _DEPTH)
        said = ((one.id, words, value) for words, one, value in best)
        return strongest(mentions, said, lambda one: [one.id], lambda own, words: not own <= words)


class Broader:
    """1 where the best candidate of another mention of the text is a kind of this one."""

    weights = DefaultWeights(untrained=0.05)

    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        """For each mention by what the others say; alone in its text it learns nothing."""
        said = (
            (parent, words, 1.0)
            for words, best, _ in best_candidates(mentions, 1)
            for parent in parents_of(best)
        )
        return strongest(mentions, said, self.things, lambda own, words: words != own)

    def things(self, candidate: Candidate) -> list[EntityId]:
        """What has to be a parent of another mention's best candidate: the candidate itself."""
        return [candidate.id]


class Siblings(Broader):
    """1 where the best candidate of another mention of the text has a parent of this one."""

    def things(self, candidate: Candidate) -> list[EntityId]:
        """What has to be a parent of another mention's best candidate: one of the candidate's."""
        return parents_of(candidate)


def parents_of(candidate: Candidate) -> list[EntityId]:
    """The broader entities of a candidate."""
    return [EntityId(candidate.id.kb, parent) for parent in candidate.parents]


def words_of(ranking: Ranking) -> frozenset[str]:
    """The words of a mention."""
    return frozenset(fold(ranking.mention.surface).split())


def best_candidates(
    mentions: Iterable[Ranking], depth: int
) -> Iterator[tuple[frozenset[str], Candidate, float]]:
    """The words of each different surface with its first ``depth`` candidates of each KB.

    With their scores in relation to the best one of all KBs: one that has nothing of the name says
    little. In the order of the words: that of the mentions changes nothing.
    """
    best: dict[frozenset[str], dict[str, list[Candidate]]] = {}
    for ranking in sorted(
        mentions, key=lambda one: (one.mention.text, one.mention.start, one.mention.end)
    ):
        words = words_of(ranking)
        if words not in best:
            by_kb = best[words] = {}
            for one in ranking.candidates:
                own = by_kb.setdefault(one.id.kb, [])
                if len(own) < depth:
                    own.append(one)
    for words in sorted(best, key=sorted):
        by_kb = best[words]
        first = max([0.1, *(own[0].score for own in by_kb.values())])
        for candidates in by_kb.values():
            for one in candidates:
                yield words, one, min(max(one.score / first, 0.0), 1.0)


def strongest(
    mentions: Sequence[Ranking],
    said: Iterable[tuple[EntityId, frozenset[str], float]],
    things: Callable[[Candidate], list[EntityId]],
    counts: Callable[[frozenset[str], frozenset[str]], bool],
) -> list[list[float]]:
    """How strongly other surfaces support each candidate, by the ids of its ``things``.

    ``said``: an entity, the words of a surface that supports it, and how strongly. ``counts``
    decides by a mention's words and the surface's whether that support counts.
    """
    voices: dict[EntityId, list[tuple[frozenset[str], float]]] = {}
    for entity, words, value in said:
        own = voices.setdefault(entity, [])
        if len(own) < _MOST:
            own.append((words, value))
    values = []
    for mention in mentions:
        of_mention = words_of(mention)
        heard = (
            [
                value
                for thing in things(candidate)
                for words, value in voices.get(thing, ())
                if counts(of_mention, words)
            ]
            for candidate in mention.candidates
        )
        values.append([max(each, default=0.0) for each in heard])
    return values
