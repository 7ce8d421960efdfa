"""One document speaks of few things: what another mention of it means is likely meant again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kglink.plugins import DefaultWeights, PluginSettings
from kglink.records import EntityId, Ranking
from kglink_plugins.evidence.surfaces import (
    Support,
    strongest,
    supports,
    surfaces_of,
    told_by,
    words_of,
)

_DEPTH = 3


class SameInDocument:
    """How near a candidate is to the best one of another mention of the text, in other words.

    Where the other mention has all words of this one and more, it says nothing: "cancer" is not
    "breast cancer".
    """

    weights = DefaultWeights(untrained=0.06)

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        """For each mention by what the others say; alone in its text it learns nothing."""
        told = told_by(surfaces_of(mentions, _DEPTH))
        found = supports((one.id, Support(words, value)) for words, one, value in told)
        return [_of_mention(mention, found) for mention in mentions]


def _of_mention(mention: Ranking, found: Mapping[EntityId, Sequence[Support]]) -> list[float]:
    own = words_of(mention)
    return [
        strongest([one.id], found, lambda words: not own <= words) for one in mention.candidates
    ]
