"""Entities that bear the mention's own words as a name come first.

Use it: set link.reranker to myvendor/myplugin, in kglink.toml or as KGLINK_LINK_RERANKER
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kglink.plugins import PluginSettings, Register, hookimpl
from kglink.records import Candidate, Ranking


class SameNameSettings(PluginSettings):
    """The settings of the reranker."""

    bonus: float = 1.0
    """What a candidate of the same name is given."""


class SameNameReranker:
    """Compares the mention with the title and the other names of each candidate."""

    def __init__(self, settings: SameNameSettings) -> None:
        self._bonus = settings.bonus

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """Each ranking by itself, best first."""
        return [self._ranked(ranking) for ranking in rankings]

    def _ranked(self, ranking: Ranking) -> Ranking:
        scored = [
            replace(one, score=one.score + self._bonus * self._same(one, ranking.mention.surface))
            for one in ranking.candidates
        ]
        return replace(ranking, candidates=tuple(sorted(scored, key=lambda one: -one.score)))

    def _same(self, candidate: Candidate, surface: str) -> bool:
        return surface in (candidate.title, *candidate.aliases)


@hookimpl
def register_rerankers(register: Register) -> None:
    """Offer the reranker."""
    register(
        "myvendor/myplugin",
        SameNameReranker,
        settings=SameNameSettings,
        summary="Entities named like the mention come first",
    )
