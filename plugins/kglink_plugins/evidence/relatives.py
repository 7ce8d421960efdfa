"""Related things are spoken of together: a broader entity, or one of the same parent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kglink.plugins import DefaultWeights, PluginSettings
from kglink.records import Candidate, EntityId, Ranking
from kglink_plugins.evidence.surfaces import (
    Support,
    strongest,
    supports,
    surfaces_of,
    told_by,
    words_of,
)


class Broader:
    """1 where the best candidate of another mention of the text is a kind of this one."""

    weights = DefaultWeights(untrained=0.05)

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        """For each mention by what the others say; alone in its text it learns nothing."""
        return _related(mentions, lambda candidate: [candidate.id])


class Siblings:
    """1 where the best candidate of another mention of the text has a parent of this one."""

    weights = DefaultWeights(untrained=0.05)

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        """For each mention by what the others say; alone in its text it learns nothing."""
        return _related(mentions, parents_of)


def parents_of(candidate: Candidate) -> list[EntityId]:
    """The broader entities of a candidate."""
    return [EntityId(candidate.id.kb, parent) for parent in candidate.parents]


def _related(
    mentions: Sequence[Ranking], by: Callable[[Candidate], Iterable[EntityId]]
) -> list[list[float]]:
    """1 where the best candidate of another surface has one of these as a parent."""
    found = supports(
        (parent, Support(words, 1.0))
        for words, best, _ in told_by(surfaces_of(mentions, 1))
        for parent in parents_of(best)
    )
    return [_of_mention(mention, by, found) for mention in mentions]


def _of_mention(
    mention: Ranking,
    by: Callable[[Candidate], Iterable[EntityId]],
    found: Mapping[EntityId, Sequence[Support]],
) -> list[float]:
    own = words_of(mention)
    return [strongest(by(one), found, lambda words: words != own) for one in mention.candidates]
