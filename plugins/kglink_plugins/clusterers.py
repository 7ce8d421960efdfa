"""An easy mention helps a hard one like it, in the same text or another (ArboEL, section 3.3).

Each mention is explained by its best entity, as probably as that is right, or by a mention like it,
as probably as the two are alike; what explains it best, along a tree, is what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from kglink.arrays import FloatArray
from kglink.clusters.clustering import NO_ENTITY, ClusteringChoice, MentionGraph, Mode, cluster
from kglink.clusters.neighbours import Neighbours, nearest_others
from kglink.plugins import MentionVectors
from kglink.records import Candidate, EntityId, Ranking
from kglink_plugins.plugin import MentionsSettings

#: By this the cluster's entity outscores the mention's own best.
_BEFORE = 0.001
#: What is tried where documents choose the settings.
_MODES: tuple[Mode, ...] = ("directed", "undirected")
_NEIGHBOURS = (1, 4, 8)
_CONTEXTS = (0.0, 0.5)
_THRESHOLDS = (0.0, 0.5, 0.7, 0.9)


class _Compared(NamedTuple):
    """Mentions in the order of their places, whatever order they came in."""

    places: list[int]
    """Where each came in."""
    vectors: FloatArray
    near: Neighbours


class MentionsClusterer:
    """Puts the entity first that a mention's cluster means, where it is a candidate."""

    def __init__(self, settings: MentionsSettings) -> None:
        self._settings = settings
        self._vectors: MentionVectors | None = None
        self._probability: Callable[[Ranking], float] = lambda ranking: 0.0
        self._changed = self._asked = 0

    def read_with(self, vectors: MentionVectors, probability: Callable[[Ranking], float]) -> None:
        """Compare mentions by these vectors, and know how probably the best candidate is right."""
        self._vectors, self._probability = vectors, probability

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """All rankings of a run, each with what its cluster means first."""
        settings = self._settings
        if self._vectors is None or settings.mode == "independent":
            return list(rankings)
        compared = _compared(rankings, self._vectors, settings.context, settings.neighbours)
        answers = self._helped(rankings, compared, settings)
        self._asked += len(rankings)
        self._changed += sum(
            _first(one) != _first(asked) for one, asked in zip(answers, rankings, strict=True)
        )
        return answers

    def alternatives(
        self, rankings: Sequence[Ranking]
    ) -> Iterator[tuple[Mapping[str, str | int | float | bool], list[Ranking]]]:
        """Modes, numbers of neighbours, shares of contexts and thresholds, the plainest first."""
        yield {"mode": "independent"}, list(rankings)
        if self._vectors is None:
            return
        for context in _CONTEXTS:
            compared = _compared(rankings, self._vectors, context, max(_NEIGHBOURS))
            for mode, neighbours, threshold in product(_MODES, _NEIGHBOURS, _THRESHOLDS):
                tried: dict[str, str | int | float | bool] = {
                    "mode": mode,
                    "neighbours": neighbours,
                    "context": context,
                    "threshold": threshold,
                }
                changed = self._settings.model_copy(update=tried)
                yield tried, self._helped(rankings, compared, changed)

    def told(self) -> list[str]:
        """How many answers others have changed."""
        asked, changed = self._asked, self._changed
        self._asked = self._changed = 0
        return [f"others changed the answer of {changed:,} of {asked:,} mentions"] * bool(asked)

    def _helped(
        self, rankings: Sequence[Ranking], compared: _Compared, settings: MentionsSettings
    ) -> list[Ranking]:
        """The rankings with what explains each mention first."""
        ordered = [rankings[at] for at in compared.places]
        near = compared.near.first(settings.neighbours)
        alike = np.maximum(near.similarities, 0) ** np.float32(settings.power)
        near = near._replace(similarities=np.where(near.numbers < 0, -np.inf, alike))
        numbers: dict[EntityId, int] = {}
        entities = [
            numbers.setdefault(first, len(numbers)) if (first := _first(one)) else NO_ENTITY
            for one in ordered
        ]
        sure = np.array([self._probability(one) for one in ordered], dtype=np.float32)
        graph = MentionGraph(np.array(entities, dtype=np.int64), sure, near)
        through = cluster(
            graph, ClusteringChoice(settings.mode, settings.neighbours, settings.threshold)
        ).through
        cosines = np.einsum("md,md->m", compared.vectors, compared.vectors[through])
        answers = list(rankings)
        for own, (at, root) in enumerate(zip(compared.places, through.tolist(), strict=True)):
            if root not in (-1, own):  # else nothing explains it, or its own entity does
                likeness = max(0.0, float(cosines[own])) ** settings.power
                answers[at] = _with_first(ordered[own], ordered[root].candidates[0], likeness)
        return answers


def _compared(
    rankings: Sequence[Ranking], read: MentionVectors, context: float, neighbours: int
) -> _Compared:

    def place(at: int) -> tuple[str, int, int, str]:
        mention = rankings[at].mention
        return mention.document, mention.start, mention.end, mention.text

    places = sorted(range(len(rankings)), key=place)
    names, contexts = read([rankings[at].mention for at in places])
    shares = np.float32(1 - context) ** 0.5, np.float32(context) ** 0.5
    vectors = np.hstack([names * shares[0], contexts * shares[1]]).astype(np.float32)
    return _Compared(places, vectors, nearest_others(vectors, neighbours))


def _with_first(ranking: Ranking, meant: Candidate, alike: float) -> Ranking:
    """The ranking with an entity first that another mention means, if it is a candidate."""
    own = next((one for one in ranking.candidates if one.id == meant.id), None)
    if own is None:
        return ranking
    others = [one for one in ranking.candidates if one.id != meant.id]
    least = others[0].score + _BEFORE if others and others[0].score >= own.score else own.score
    helped = replace(
        own,
        score=max(least, meant.score * alike),
        evidence={**own.evidence, "mentions": round(alike, 4)},
    )
    return replace(ranking, candidates=(helped, *others))


def _first(ranking: Ranking) -> EntityId | None:
    return ranking.candidates[0].id if ranking.candidates else None
