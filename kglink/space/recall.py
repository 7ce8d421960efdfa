"""How much of the exact answer an index finds, and how long it takes, part by part of a space.

A part is what a search is limited to: the rows of one kind of one KB, or all rows. A row counts as
found if its score, computed anew from its vector, is that of the exact answer: which of two equal
rows comes first is no matter of recall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.plugins import RowRange, VectorIndex
from kglink.records import OnProgress, Progress
from kglink.space.manifest import RowKind
from kglink.space.space import Space

KS = (1, 10, 100)
#: Queries that are asked together, and at most how many are asked alone.
BATCH, ALONE = 64, 32
#: Two ways of summing one inner product may differ by so much of the larger score.
_ROUNDING = 1e-5


@dataclass(frozen=True, slots=True)
class IndexQueries:
    """What an index is asked."""

    what: str
    """In words."""
    vectors: Mapping[RowKind, FloatArray]
    """The queries for rows of each kind."""
    own: IntArray | None = None
    """The row that each query is a copy of, which is left out of its answer."""

    @property
    def count(self) -> int:
        """How many there are for each kind of rows."""
        return max((len(queries) for queries in self.vectors.values()), default=0)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are searched together; ``kb`` and ``kind`` are empty for all rows."""

    kb: str
    kind: RowKind | str
    rows: RowRange

    @property
    def name(self) -> str:
        """How it is called in a table."""
        return f"{self.kb} {self.kind}" if self.kb else "all rows"


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds per query: of one asked alone, of one among a batch."""

    alone: float
    batch: float


@dataclass(frozen=True, slots=True)
class PartFigures:
    """What was measured in one part."""

    part: Part
    queries: int
    recall: Mapping[int, float]
    index: Times
    exact: Times

    def as_json(self) -> dict[str, object]:
        """A plain dictionary for machine-readable output."""
        return {
            "kb": self.part.kb,
            "kind": self.part.kind,
            "rows": self.part.rows.stop - self.part.rows.start,
            "queries": self.queries,
            "recall": {f"R@{k}": share for k, share in self.recall.items()},
            "ms": {"alone": self.index.alone, "batch": self.index.batch},
            "exact_ms": {"alone": self.exact.alone, "batch": self.exact.batch},
        }


def parts_of(space: Space) -> list[Part]:
    """All rows, then what a search of each KB is limited to."""
    spans = space.manifest.spans
    whole = Part("", "", RowRange(0, spans[-1].stop))
    return [whole, *(Part(span.kb, span.kind, RowRange(span.start, span.stop)) for span in spans)]


def measure_index(
    space: Space,
    index: VectorIndex,
    exact: VectorIndex,
    queries: IndexQueries,
    *,
    progress: OnProgress = lambda _: None,
) -> list[PartFigures]:
    """Compare an index of a space's rows with an exact one, part by part."""
    found, parts = [], parts_of(space)
    for done, part in enumerate(parts, 1):
        if part.rows.stop > part.rows.start:
            found.append(_measure(space, index, exact, queries, part))
        progress(Progress("measuring", done, len(parts)))
    return found


def _measure(
    space: Space, index: VectorIndex, exact: VectorIndex, queries: IndexQueries, part: Part
) -> PartFigures:
    # All rows are asked what most of them are asked: names, where they have names.
    first: RowKind = "alias" if "alias" in queries.vectors else "text"
    asked = queries.vectors["text" if part.kind == "text" else first]
    more = int(queries.own is not None)

    def search(one: VectorIndex, vectors: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        return one.search(vectors, k + more, [part.rows])

    hits: dict[int, list[float]] = {k: [] for k in KS}
    for start in range(0, len(asked), BATCH):
        batch = asked[start : start + BATCH]
        own = queries.own[start : start + BATCH] if queries.own is not None else None
        best, _ = _without(own, *search(exact, batch, max(KS)))
        for k in KS:  # An index may look further for more rows: each depth is a search of its own.
            _, rows = _without(own, *search(index, batch, k))
            scores = np.einsum("qkd,qd->qk", space.vectors(rows), batch)
            scores[rows < 0] = -np.inf
            # For each query the share of its exact answer that was found.
            wanted = np.isfinite(best[:, :k])
            worst = np.where(wanted, best[:, :k], np.inf).min(axis=1, initial=np.inf)
            slack = _ROUNDING * np.maximum(1, np.abs(worst))
            right = (scores >= (worst - slack)[:, None]).sum(axis=1)
            counts = zip(right.tolist(), wanted.sum(axis=1).tolist(), strict=True)
            hits[k] += [hit / count for hit, count in counts if count]
    times = _times(lambda vectors: search(index, vectors, max(KS)), asked)
    exact_times = times
    if exact is not index:
        exact_times = _times(lambda vectors: search(exact, vectors, max(KS)), asked)
    return PartFigures(
        part=part,
        queries=len(asked),
        recall={k: float(np.mean(shares)) if shares else 1.0 for k, shares in hits.items()},
        index=times,
        exact=exact_times,
    )


def _without(
    own: IntArray | None, scores: FloatArray, rows: IntArray
) -> tuple[FloatArray, IntArray]:
    """The answers less the row that each query is a copy of; the last one where it is not there."""
    if own is None:
        return scores, rows
    order = np.argsort(rows == own[:, None], axis=1, kind="stable")[:, :-1]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)


def _times(search: Callable[[FloatArray], object], queries: FloatArray) -> Times:
    search(queries[:BATCH])  # Pages that are mapped come into memory once.

    def milliseconds(most: int, size: int) -> float:
        """The time of a query among so many."""
        found = []
        for start in range(0, min(most, len(queries)), size):
            asked = queries[start : start + size]
            began = time.perf_counter()
            search(asked)
            found.append(1000 * (time.perf_counter() - began) / len(asked))
        return median(found)

    return Times(alone=milliseconds(ALONE, 1), batch=milliseconds(len(queries), BATCH))


def sample_rows(space: Space, count: int) -> IntArray:
    """Rows drawn at random, the same each time: names, or texts where there are no names."""
    kind = "alias" if space.has_rows("alias") else "text"
    rows = np.concatenate(
        [np.arange(span.start, span.stop) for span in space.manifest.spans if span.kind == kind]
    )
    drawn = np.random.default_rng(0).choice(len(rows), min(count, len(rows)), replace=False)
    chosen: IntArray = rows[np.sort(drawn)]
    return chosen
