"""Choosing how to cluster by mentions whose meaning is known: for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from kglink.clusters.clustering import ClusteringChoice, Clusters, FloatArray, MentionGraph, cluster


def best_choice(
    graph: MentionGraph,
    choices: Iterable[ClusteringChoice],
    judge: Callable[[Clusters], float],
) -> tuple[ClusteringChoice, float]:
    """The choice whose clusters are judged best, such as by accuracy or ARI; of equals the first.

    The graph is that of mentions whose meaning is known; it has as many neighbours as any choice.
    """
    judged = [(one, judge(cluster(graph, one))) for one in choices]
    return max(judged, key=lambda one: one[1])


def threshold_grid(similarities: FloatArray, count: int = 10) -> list[float]:
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
