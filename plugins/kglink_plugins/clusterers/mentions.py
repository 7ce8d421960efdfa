"""An easy mention helps a hard one like it, in the same text or another (ArboEL, section 3.3).

Each mention is explained by its best entity, as probably as that is right, or by a mention like it,
as probably as the two are alike; what explains it best, along a tree, is what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kglink.clusters.clustering import NO_ENTITY, ClusteringChoice, MentionGraph, cluster
from kglink.clusters.neighbours import nearest_others
from kglink.plugins import MentionVectors
from kglink.records import Candidate, EntityId, Ranking
from kglink_plugins.clusterers.settings import MentionsSettings

FloatArray = npt.NDArray[np.float32]
#: By so much what others say is better than what a mention says itself.
_BEFORE = 0.001


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
        if self._vectors is None:
            return list(rankings)
        order = sorted(range(len(rankings)), key=lambda at: _place(rankings[at]))
        ordered = [rankings[at] for at in order]
        through, alike = self._explained(ordered, self._vectors)
        answers = list(rankings)
        for own, (at, root, near) in enumerate(zip(order, through, alike, strict=True)):
            if root in (-1, own):  # nothing explains it, or its own entity does
                continue
            answers[at] = _helped(ordered[own], ordered[root].candidates[0], near)
            self._changed += _first(answers[at]) != _first(ordered[own])
        self._asked += len(rankings)
        return answers

    def told(self) -> list[str]:
        """How many answers others have changed."""
        asked, changed = self._asked, self._changed
        self._asked = self._changed = 0
        return [f"{changed:,} of {asked:,} mentions are taken for what others mean"] * bool(asked)

    def _explained(
        self, rankings: Sequence[Ranking], read: MentionVectors
    ) -> tuple[list[int], list[float]]:
        """For each mention the one that explains it, and how like it that is."""
        told = self._settings
        names, contexts = read([one.mention for one in rankings])
        shares = np.float32(1 - told.context) ** 0.5, np.float32(told.context) ** 0.5
        vectors = np.hstack([names * shares[0], contexts * shares[1]]).astype(np.float32)
        near = nearest_others(vectors, told.neighbours)
        alike = np.maximum(near.similarities, 0) ** np.float32(told.power)
        near = near._replace(similarities=np.where(near.numbers < 0, -np.inf, alike))
        numbers: dict[EntityId, int] = {}
        graph = MentionGraph(
            np.array(
                [
                    numbers.setdefault(one.candidates[0].id, len(numbers))
                    if one.candidates
                    else NO_ENTITY
                    for one in rankings
                ],
                dtype=np.int64,
            ),
            np.array([self._probability(one) for one in rankings], dtype=np.float32),
            near,
        )
        choice = ClusteringChoice(told.mode, told.neighbours, told.threshold)
        through = cluster(graph, choice).through
        cosines = np.einsum("md,md->m", vectors, vectors[through])
        return through.tolist(), (np.maximum(cosines, 0) ** told.power).tolist()


def _helped(ranking: Ranking, meant: Candidate, alike: float) -> Ranking:
    """The ranking with an entity first that another mention means, if it is a candidate."""
    own = next((one for one in ranking.candidates if one.id == meant.id), None)
    if own is None:
        return ranking
    others = [one for one in ranking.candidates if one.id != meant.id]
    least = others[0].score + _BEFORE if others and others[0].score >= own.score else own.score
    helped = replace(
        own,
        score=max(own.score, least, meant.score * alike),
        evidence={**own.evidence, "mentions": round(alike, 4)},
    )
    return replace(ranking, candidates=(helped, *others))


def _place(ranking: Ranking) -> tuple[str, int, int, str]:
    mention = ranking.mention
    return mention.document, mention.start, mention.end, mention.text


def _first(ranking: Ranking) -> EntityId | None:
    return ranking.candidates[0].id if ranking.candidates else None
