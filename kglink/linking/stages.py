"""Stages between retrieval and decision: plugins that order candidates anew.

A stage is given rankings and gives rankings back. A reranker sees a batch of mentions; a clusterer
sees all mentions of a run at once, so that an easy mention in one text helps a hard one in another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from kglink.errors import PluginError, UsageError, errors_of
from kglink.plugins import Clusterer, OffersSettings, Reranker
from kglink.records import Ranking


@dataclass(frozen=True, slots=True)
class Stage:
    """A reranker or a clusterer, and how many first candidates it is given."""

    name: str
    plugin: Reranker | Clusterer
    depth: int
    sees_all: bool = False
    """Whether it has to see all mentions of a run (a clusterer) or a batch of them."""

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """The first candidates as the plugin orders them, and the others behind them."""
        if not rankings:
            return []
        heads = self._heads(rankings)
        with errors_of(self.name):
            return self._merged(rankings, heads, list(self.plugin.rank(heads)))

    def alternatives(
        self, rankings: Sequence[Ranking]
    ) -> Iterator[tuple[Mapping[str, str | int | float | bool], list[Ranking]]]:
        """The settings that the plugin offers, each with the candidates as it then orders them."""
        if not isinstance(self.plugin, OffersSettings):
            raise UsageError(
                f"{self.name} offers no settings to choose from",
                hint="Set them in link.clusterer_settings.",
            )
        heads = self._heads(rankings)
        with errors_of(self.name):
            for settings, answers in self.plugin.alternatives(heads):
                yield settings, self._merged(rankings, heads, list(answers))

    def _heads(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [replace(one, candidates=one.candidates[: self.depth]) for one in rankings]

    def _merged(
        self, rankings: Sequence[Ranking], heads: Sequence[Ranking], answers: Sequence[Ranking]
    ) -> list[Ranking]:
        """What the plugin answered, and behind it the candidates that it was not given."""
        if len(answers) != len(heads):
            raise self._broken(f"{len(heads)} rankings were given, {len(answers)} came back")
        merged = []
        for asked, head, answer in zip(rankings, heads, answers, strict=True):
            if answer.mention != head.mention:
                raise self._broken("the rankings came back in another order than they were given")
            given, back = ({one.id for one in own.candidates} for own in (head, answer))
            if given != back or len(answer.candidates) != len(head.candidates):
                raise self._broken("other candidates came back than were given")
            scores = [one.score for one in answer.candidates]
            if not all(map(math.isfinite, scores)):
                raise self._broken(f"the scores {scores} are not all finite numbers")
            if any(before < after for before, after in pairwise(scores)):
                raise self._broken(f"candidates with the scores {scores} are not best first")
            # What the stage was not given stays behind what it was: no score there may be higher.
            least = min(scores, default=0.0)
            tail = asked.candidates[self.depth :]
            behind = (replace(one, score=min(one.score, least)) for one in tail)
            merged.append(Ranking(asked.mention, (*answer.candidates, *behind), answer.note))
        return merged

    def _broken(self, what: str) -> PluginError:
        return PluginError(
            f"{self.name}: {what}",
            hint="A stage returns each candidate of each ranking once, best first.",
        )


def run_stages(
    stages: Sequence[Stage], batches: Iterable[list[Ranking]]
) -> Iterator[list[Ranking]]:
    """The batches after all stages; one that sees all mentions waits for the last batch."""
    ranked = iter(batches)
    for stage in stages:
        ranked = _over_all(stage, ranked) if stage.sees_all else map(stage.rank, ranked)
    return ranked


def _over_all(stage: Stage, batches: Iterable[list[Ranking]]) -> Iterator[list[Ranking]]:
    held = list(batches)
    answers = iter(stage.rank([one for batch in held for one in batch]))
    for batch in held:
        yield list(islice(answers, len(batch)))
