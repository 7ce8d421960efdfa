"""A candidate counts more, the more mentions of the run may mean it.

Use it: set link.clusterer to myvendor/myplugin, in kglink.toml or as KGLINK_LINK_CLUSTERER
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kglink.plugins import PluginSettings, Register, hookimpl
from kglink.records import Ranking


class CommonSettings(PluginSettings):
    """The settings of the clusterer."""

    weight: float = 0.1
    """What each further mention adds to the score."""


class CommonClusterer:
    """Adds up the mentions that have an entity among their candidates."""

    def __init__(self, settings: CommonSettings) -> None:
        self._weight = settings.weight

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """All rankings of a run, each best first."""
        counts = Counter(one.id for ranking in rankings for one in ranking.candidates)
        ranked = []
        for ranking in rankings:
            scored = [
                replace(one, score=one.score + self._weight * (counts[one.id] - 1))
                for one in ranking.candidates
            ]
            best_first = tuple(sorted(scored, key=lambda one: -one.score))
            ranked.append(replace(ranking, candidates=best_first))
        return ranked


@hookimpl
def register_clusterers(register: Register) -> None:
    """Offer the clusterer."""
    register(
        "myvendor/myplugin",
        CommonClusterer,
        settings=CommonSettings,
        summary="Entities that many mentions may mean come first",
    )
