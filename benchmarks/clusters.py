"""How long clustering takes, and how much memory, as mentions become more.

    python benchmarks/clusters.py                    # up to 1,000,000 mentions, 384 numbers each
    python benchmarks/clusters.py --sizes 10000 --trees 1000 10000

Synthetic mentions lie around the vectors of what they mean, five around each on average; nine of
ten entities are known. The accuracy is that of their entities, NIL included, so that a table of
figures cannot hide wrong answers.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable

import numpy as np

from kglink.clusters.arborescence import full_tree, nearest_parents
from kglink.clusters.clustering import NO_ENTITY, ClusteringChoice, MentionGraph, cluster
from kglink.clusters.neighbours import nearest_others

NOISE = 0.5


def world(count: int, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors of mentions, what each means (or NIL), and its nearest entity, often a wrong one."""
    rng = np.random.default_rng(17)
    meant = np.sort(rng.integers(max(1, count // 5), size=count))
    vectors = rng.standard_normal((count, dim), dtype=np.float32)
    middles = rng.standard_normal((max(1, count // 5), dim), dtype=np.float32)
    for start in range(0, count, 1 << 16):
        block = vectors[start : start + (1 << 16)]
        block *= NOISE
        block += middles[meant[start : start + (1 << 16)]]
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    known = np.where(meant % 10 == 0, NO_ENTITY, meant)
    return vectors, known, rng.random(count, dtype=np.float32)


def clustered(count: int, dim: int) -> None:
    """One row of the table."""
    vectors, known, sure = world(count, dim)
    before = peak()
    # What a mention that is unsure is taken for is wrong in half of the cases.
    wrong = (sure < 0.4) & (np.arange(count) % 2 == 0)
    seen = np.where(wrong | (known == NO_ENTITY), (known + 7) % (count // 5), known)
    similar = np.where(known == NO_ENTITY, sure * 0.5, sure).astype(np.float32)
    began = time.perf_counter()
    near = nearest_others(vectors, 4)
    searched = time.perf_counter() - began
    graph = MentionGraph(seen, similar, near)
    rows = []
    for choice in (
        ClusteringChoice("independent", threshold=0.5),
        ClusteringChoice("directed", 4, 0.5),
        ClusteringChoice("undirected", 4, 0.5),
    ):
        began = time.perf_counter()
        found = cluster(graph, choice)
        seconds = time.perf_counter() - began
        rows.append(f"{choice.mode} {seconds:.1f} s, {np.mean(found.entities == known):.3f} right")
    print(
        f"{count:>9,} mentions: nearest 4 {searched:.1f} s; {'; '.join(rows)}; "
        f"{before:.2f} GB before, {peak():.2f} GB at most. {near.note}",
        flush=True,
    )


def grown(count: int, dim: int) -> None:
    """One row of the table of trees."""
    rng = np.random.default_rng(17)
    mentions = rng.standard_normal((count, dim), dtype=np.float32)
    entity = rng.standard_normal(count, dtype=np.float32)
    seconds = []
    for grow in (
        lambda: full_tree(entity, mentions),
        lambda: full_tree(entity, mentions, most_bytes=0),
        lambda: nearest_parents(entity, mentions),
    ):
        began = time.perf_counter()
        grow()
        seconds.append(time.perf_counter() - began)
    print(
        f"{count:>9,} mentions of one entity: tree {seconds[0]:.1f} s, row by row "
        f"{seconds[1]:.1f} s, 1-NN {seconds[2]:.1f} s; {peak():.2f} GB at most",
        flush=True,
    )


def peak() -> float:
    """The most memory that this process held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def alone(job: Callable[[int, int], None], count: int, dim: int) -> None:
    """Run in a process of its own, whose memory is that of the job."""
    process = multiprocessing.get_context("spawn").Process(target=job, args=(count, dim))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--trees", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--dim", type=int, default=384)
    asked = parser.parse_args()
    for count in asked.trees:
        alone(grown, count, asked.dim)
    for count in asked.sizes:
        alone(clustered, count, asked.dim)


if __name__ == "__main__":
    main()
