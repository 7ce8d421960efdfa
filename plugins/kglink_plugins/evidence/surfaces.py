"""What the other mentions of a text say: each different surface once, with its best candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kglink.records import Candidate, Ranking
from kglink.text.fold import fold

#: How many surfaces speak for one thing at most; those after them say the same.
_MOST = 16

Thing = TypeVar("Thing")


class Surface(NamedTuple):
    """A surface of a text, by its words, with the best candidates of each KB for it."""

    words: frozenset[str]
    best: Mapping[str, Sequence[Candidate]]


class Support(NamedTuple):
    """A surface speaks so strongly for something."""

    words: frozenset[str]
    value: float


def words_of(ranking: Ranking) -> frozenset[str]:
    """The words of a mention."""
    return frozenset(fold(ranking.mention.surface).split())


def surfaces_of(mentions: Iterable[Ranking], depth: int) -> list[Surface]:
    """All different surfaces, each with the first ``depth`` candidates of each KB.

    In the order of their words: that of the mentions changes nothing.
    """
    best: dict[frozenset[str], dict[str, list[Candidate]]] = {}
    for ranking in sorted(mentions, key=_by_place):
        words = words_of(ranking)
        if words not in best:
            by_kb = best[words] = {}
            for one in ranking.candidates:
                own = by_kb.setdefault(one.id.kb, [])
                if len(own) < depth:
                    own.append(one)
    return [Surface(words, by_kb) for words, by_kb in sorted(best.items(), key=_by_words)]


def _by_place(ranking: Ranking) -> tuple[str, int, int]:
    mention = ranking.mention
    return mention.text, mention.start, mention.end


def _by_words(item: tuple[frozenset[str], object]) -> list[str]:
    return sorted(item[0])


def supports(told: Iterable[tuple[Thing, Support]]) -> dict[Thing, list[Support]]:
    """Who speaks for each thing."""
    found: dict[Thing, list[Support]] = {}
    for thing, support in told:
        own = found.setdefault(thing, [])
        if len(own) < _MOST:
            own.append(support)
    return found


def strongest(
    things: Iterable[Thing],
    found: Mapping[Thing, Sequence[Support]],
    counts: Callable[[frozenset[str]], bool],
) -> float:
    """How strongly the surfaces that count speak for any of some things."""
    return max(
        (one.value for thing in things for one in found.get(thing, ()) if counts(one.words)),
        default=0.0,
    )


def told_by(surfaces: Iterable[Surface]) -> Iterator[tuple[frozenset[str], Candidate, float]]:
    """Each surface with its best candidates, and their scores in relation to the best one's."""
    for surface in surfaces:
        for candidates in surface.best.values():
            first = max(candidates[0].score, 0.1)
            for one in candidates:
                yield surface.words, one, min(max(one.score / first, 0.0), 1.0)
