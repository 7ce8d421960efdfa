"""Mentions clustered by raw scores, as ArboEL links and counts them: its sections 3.3 and 4.

Mentions and entities are compared by the products of their vectors. A mention's neighbours, and
its entity, are looked for in the KB of the mention, as ZESHEL's worlds want it. How clusters are
made is chosen on the mentions of validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.arrays import FloatArray
from kglink.clusters.clustering import (
    NO_ENTITY,
    ClusteringChoice,
    Clusters,
    MentionGraph,
    choices,
    cluster,
)
from kglink.clusters.neighbours import Neighbours, nearest_others
from kglink.errors import UsageError
from kglink.evaluation.candidate_files import judged_places
from kglink.evaluation.measures.clusters import (
    NEAREST,
    adjusted_rand_index,
    labels_of,
    neighbour_recall,
)
from kglink.evaluation.rankings import in_text
from kglink.records import EntityId
from kglink.workspace.opened import Opened
from kglink_papers.data import Column, Part
from kglink_papers.table import Values

#: How many nearest mentions count: one of these.
_NEIGHBOURS = (1, 2, 4, 8)
#: Seed that draws the tenth of golds to remove (ArboEL's released code).
_SEED = 17
_REMOVED = 0.1

Gold = frozenset[EntityId]
OTHER_DATA = "The data are others than the protocol is of."


class JudgedMentions(NamedTuple):
    """Mentions with their graph and what each means; ``parts``: how many there are of each."""

    graph: MentionGraph
    golds: list[Gold]
    entities: list[EntityId]
    """By the numbers of the graph."""
    parts: list[int]

    def labels(self) -> list[tuple[EntityId, ...]]:
        """What each means, the same for the same."""
        return [tuple(sorted(one)) for one in self.golds]

    def right(self, found: Clusters) -> FloatArray:
        """1 for each mention whose cluster means what it means, 0 for others."""
        pairs = zip(found.entities.tolist(), self.golds, strict=True)
        return np.array(
            [float(at != NO_ENTITY and self.entities[at] in gold) for at, gold in pairs], np.float32
        )


def cluster_values(
    own: Opened,
    column: Column,
    validation: Sequence[Part],
    parts: Sequence[Part],
    seen: frozenset[EntityId],
) -> Values:
    """The values of a figure of clusters: of every mention, part by part, or one of them all."""

    def wanted(gold: Gold) -> bool:
        return not column.mentions or seen.isdisjoint(gold) is (column.mentions == "unseen")

    def judged(which: Sequence[Part]) -> JudgedMentions:
        alone = wanted if column.metric == "ARI alone" else lambda gold: True
        return mention_graph(own, which, alone, removing=column.metric.startswith("discovery"))

    test = judged(parts)
    counts = np.array([wanted(gold) for gold in test.golds], np.bool_)
    if not counts.any():
        raise UsageError(f"there is no mention to judge for {column.name}", hint=OTHER_DATA)
    if column.metric.startswith("mention R@"):
        recall = neighbour_recall(test.graph.neighbours.numbers, labels_of(test.labels()))
        return [np.array([recall or 0.0])]
    dev = judged(validation)
    if column.metric == "linked accuracy":
        tried = choices(("independent", "directed", "undirected"), _NEIGHBOURS, (-np.inf,))
        chosen = best_choice(dev.graph, tried, lambda found: float(dev.right(found).mean()))
        right = test.right(cluster(test.graph, chosen)).astype(np.float64)
        ends = np.cumsum(test.parts)[:-1]
        both = zip(np.split(right, ends), np.split(counts, ends), strict=True)
        return [values[kept] for values, kept in both if kept.any()]
    graphs = [dev.graph, test.graph]
    if not column.metric.startswith("discovery"):  # mentions alone
        graphs = [
            graph._replace(
                entities=np.full_like(graph.entities, NO_ENTITY),
                similarities=np.full_like(graph.similarities, -np.inf),
            )
            for graph in graphs
        ]
    cuts = threshold_grid(
        np.concatenate([graphs[0].neighbours.similarities.ravel(), graphs[0].similarities])
    )
    tried = choices(("directed",), _NEIGHBOURS, cuts)
    gold = dev.labels()
    chosen = best_choice(
        graphs[0], tried, lambda found: adjusted_rand_index(found.labels.tolist(), gold)
    )
    labels = cluster(graphs[1], chosen).labels[counts].tolist()
    meant = [one for one, kept in zip(test.labels(), counts, strict=True) if kept]
    return [np.array([adjusted_rand_index(labels, meant)])]


def mention_graph(
    own: Opened, parts: Sequence[Part], wanted: Callable[[Gold], bool], *, removing: bool = False
) -> JudgedMentions:
    """The mentions of some parts in one graph, each among those of its own KBs.

    With ``removing``, a tenth of what the mentions mean is no entity any more.
    """
    space, store = own.space(), own.store
    golds: list[Gold] = []
    known: dict[EntityId, int] = {}
    numbers: list[int] = []
    similar: list[npt.NDArray[Any]] = []
    near: list[Neighbours] = []
    counts: list[int] = []
    for part in parts:
        documents = {docs: store.documents(docs, part.split) for docs in part.docs}
        pairs = [
            (in_text(document, one), frozenset(one.gold or ()))
            for _, document, one in judged_places(documents, part.kbs)
        ]
        pairs = [one for one in pairs if wanted(one[1])]
        counts.append(len(pairs))
        if not pairs:
            continue
        vectors = own.encoder.encode_mentions([one for one, _ in pairs])
        found = nearest_others(vectors, NEAREST)
        moved = np.where(found.numbers < 0, -1, found.numbers + len(golds))
        near.append(Neighbours(moved, found.similarities))
        (kb,) = part.kbs
        segment = space.segments[kb]
        scores, rows = space.nearest(
            vectors, kb, "text", min(NEAREST, segment.row_count("text")) if removing else 1
        )
        gone = removed_golds([gold for _, gold in pairs]) if removing else ()
        left = (rows >= 0) & ~np.isin(rows, [segment.row(key) for key in gone])
        first = left.argmax(axis=1)[:, None]
        some: npt.NDArray[np.bool_] = np.asarray(left.any(axis=1))
        similar.append(np.where(some, np.take_along_axis(scores, first, 1)[:, 0], -np.inf))
        for row, there in zip(np.take_along_axis(rows, first, 1)[:, 0].tolist(), some, strict=True):
            best = EntityId(kb, segment.keys[row])
            numbers.append(known.setdefault(best, len(known)) if there else NO_ENTITY)
        golds += [gold for _, gold in pairs]
    if not near:
        raise UsageError("there is no mention to put together", hint=OTHER_DATA)
    neighbours = Neighbours(
        np.concatenate([one.numbers for one in near]),
        np.concatenate([one.similarities for one in near]),
    )
    graph = MentionGraph(
        np.array(numbers, np.int64), np.concatenate(similar).astype(np.float32), neighbours
    )
    return JudgedMentions(graph, golds, list(known), counts)


def best_choice(
    graph: MentionGraph, tried: Iterable[ClusteringChoice], judge: Callable[[Clusters], float]
) -> ClusteringChoice:
    """The choice whose clusters are judged best, such as by accuracy or ARI; of equals the first.

    The graph is that of mentions whose meaning is known; it has as many neighbours as any choice.
    """
    return max(tried, key=lambda one: judge(cluster(graph, one)))


def threshold_grid(similarities: npt.NDArray[Any], count: int = 10) -> list[float]:
    """Thresholds worth a try: the centres of similarities in so many groups (1-D k-means)."""
    values = np.sort(similarities[np.isfinite(similarities)].astype(np.float64))
    if not len(values):
        return []
    centres = np.unique(np.quantile(values, (np.arange(count) + 0.5) / count))
    for _ in range(50):
        borders = np.searchsorted(values, (centres[1:] + centres[:-1]) / 2)
        groups = [group for group in np.split(values, borders) if len(group)]
        moved = np.array([group.mean() for group in groups])
        if len(moved) == len(centres) and np.allclose(moved, centres):
            break
        centres = moved
    return [float(one) for one in centres]


def removed_golds(golds: Sequence[Gold]) -> frozenset[str]:
    """The keys of a tenth of what some mentions mean, at least one."""
    known = sorted({one.key for gold in golds for one in gold})
    count = max(1, round(_REMOVED * len(known)))
    drawn = np.random.default_rng(_SEED).choice(len(known), count, replace=False)
    return frozenset(known[at] for at in drawn.tolist())
