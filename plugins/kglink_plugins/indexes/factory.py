"""Any index that faiss's factory makes: smaller or faster than the flat one, mostly not exact."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kglink.arrays import FloatArray, IntArray
from kglink.errors import ConfigError, DamagedSpaceError
from kglink.plugins import RowRange, VectorIndex
from kglink_plugins.indexes.flat import FlatIndex
from kglink_plugins.indexes.rows import (
    best_first,
    check_queries,
    configure_faiss,
    faiss,
    faiss_errors,
    merge_ranges,
    no_rows,
    read_index,
    row_count,
    selector_of,
    spool_rows,
    threads_for,
    write_index,
)
from kglink_plugins.plugin import LISTS, FactorySettings

#: Rows fetched beyond ``k``, so that a few equal scores at the border can be told apart.
_MARGIN = 8
#: Rows that are added at a time: some kinds hold a transformed copy of what they are given.
_ADDED = 65536
#: The neighbours of each graph in a factory's text. With fewer faiss ends the process, or never
#: comes to an end.
_GRAPH, _LEAST_NEIGHBOURS = re.compile(r"(?:HNSW|NSG)(\d+)"), 4
#: Kinds that hold whole vectors, not rounded ones.
_WHOLE = (faiss.IndexFlat, faiss.IndexIVFFlat, faiss.IndexHNSWFlat)
#: Rows that a list's centre is learnt from at least, below which faiss warns.
_ROWS_PER_LIST = 39
#: An index looks into so many lists that rows drawn from it find this share of the nearest rows,
#: which all lists together would give them. Mentions find .01 less than rows do.
_SHARE, _DRAWN, _NEAREST, _FEWEST_LISTS = 0.98, 128, 64, 8


def suitable_lists(rows: int) -> int:
    """How many lists this many rows are cut into: four times their root, where they are enough."""
    return max(1, min(4 * math.isqrt(rows), rows // _ROWS_PER_LIST))


class FactoryBackend:
    """Builds and loads the index that ``settings.factory`` describes.

    Training draws its rows with a fixed seed. Graphs (HNSW) are built by several threads at once,
    and two builds of one may differ in a few links.
    """

    def __init__(self, settings: FactorySettings | None = None) -> None:
        configure_faiss()
        self._settings = settings or FactorySettings()

    def build(self, batches: Iterable[FloatArray], dim: int) -> VectorIndex:
        """Index the rows of all batches, in their order."""
        more = int(self._settings.distances)
        # A factory string that faiss refuses need not wait for the rows.
        self._empty(dim + more, 0)
        with tempfile.TemporaryFile() as file:
            rows = spool_rows(batches, dim, file)
            longest = 0.0
            if more:
                longest = max((_squares(rows[at]).max() for at in _blocks(len(rows))), default=0.0)
            index = self._empty(dim + more, len(rows))
            hint = (
                f"Choose fewer lists (IVF{LISTS} takes as many as suit the rows) or a simpler "
                "factory, or use kglink/flat."
            )
            with faiss_errors(f"cannot build {self._settings.factory}", hint=hint):
                if not index.is_trained and len(rows):
                    index.train(self._ready(self._sample(rows), longest))
                for at in _blocks(len(rows)):
                    index.add(self._ready(rows[at], longest))
                self._choose_lists(index, rows)
        return _wrap(index, self._settings)

    def load(self, path: Path) -> VectorIndex:
        """Open a file that ``save`` wrote, memory-mapped where its kind allows it."""
        index = read_index(path, distances=self._settings.distances)
        self._tune(index)
        return _wrap(index, self._settings)

    def _empty(self, dim: int, rows: int) -> Any:
        """A new index of the wanted kind for a number of rows, by products or distances."""
        trained = min(rows, self._settings.train_rows)
        factory = self._settings.factory.replace(LISTS, str(suitable_lists(trained)))
        if any(int(count) < _LEAST_NEIGHBOURS for count in _GRAPH.findall(factory)):
            raise ConfigError(
                f"{factory!r} has a graph of too few neighbours",
                hint=f"Give {_LEAST_NEIGHBOURS} or more, such as HNSW32.",
            )
        try:
            metric = faiss.METRIC_INNER_PRODUCT
            if self._settings.distances:
                metric = faiss.METRIC_L2
            index = faiss.index_factory(dim, factory, metric)
        except RuntimeError as error:
            raise ConfigError(
                f"faiss cannot make an index {factory!r} of dimension {dim}",
                hint=f"Examples: SQfp16, SQ8, IVF{LISTS},Flat, IVF1024,Flat, HNSW32, Flat.",
            ) from error
        if self._settings.distances and isinstance(_core(index), faiss.IndexIVF):
            raise ConfigError(
                f"{factory!r} cannot be searched by distances",
                hint="`distances` is for graphs, such as HNSW32.",
            )
        self._tune(index)
        return index

    def _tune(self, index: Any) -> None:
        """Set how hard an index searches."""
        core = _core(index)
        if isinstance(core, faiss.IndexIVF):
            core.cp.min_points_per_centroid = 1  # else faiss writes to standard error
        if isinstance(core, faiss.IndexHNSW):
            core.hnsw.efSearch = self._settings.ef_search
            core.hnsw.efConstruction = self._settings.ef_construction

    def _ready(self, rows: FloatArray, longest: float) -> FloatArray:
        """Rows as they are added: by distances all of one length, with one coordinate more."""
        if not self._settings.distances:
            return rows
        rest = np.sqrt(np.maximum(longest - _squares(rows), 0))
        return np.ascontiguousarray(np.column_stack([rows, rest]), np.float32)

    def _sample(self, rows: FloatArray) -> FloatArray:
        """Rows for training, drawn from all of them and the same each time."""
        if len(rows) <= self._settings.train_rows:
            return np.ascontiguousarray(rows)  # nothing is copied
        return np.ascontiguousarray(rows[_drawn(len(rows), self._settings.train_rows)])

    @staticmethod
    def _choose_lists(index: Any, rows: FloatArray) -> None:
        """Let an index of lists look into as many as it takes; its file keeps the number."""
        core = _core(index)
        if not isinstance(core, faiss.IndexIVF) or not len(rows):
            return
        drawn = _drawn(len(rows), _DRAWN)
        queries = np.ascontiguousarray(rows[drawn])

        def nearest(lists: int) -> IntArray:
            params = _parameters(index, None, lists, wider=1)
            found: IntArray = index.search(queries, _NEAREST + 1, params=params)[1]
            return np.where(found == drawn[:, None], -1, found)  # Each row finds itself.

        wanted, lists = nearest(core.nlist), min(_FEWEST_LISTS, core.nlist)
        while lists < core.nlist and _share(nearest(lists), wanted) < _SHARE:
            lists = min(math.ceil(1.4 * lists), core.nlist)
        core.nprobe = lists


class FactoryIndex:
    """An index of any kind; scores are what its codes say.

    They are rounded, and more rows must be fetched, unless the kind holds whole vectors. Within
    ranges an approximate kind can use only some of the rows that it visits: it visits more, or
    compares all rows of the ranges where that costs less.
    """

    exact = False

    def __init__(self, index: Any, settings: FactorySettings) -> None:
        self.size = int(index.ntotal)
        self.oversampling = 1 if isinstance(index, _WHOLE) else settings.oversampling
        self._index = index
        self._lists = settings.nprobe
        self._distances = index.metric_type == faiss.METRIC_L2
        self.dim = int(index.d) - self._distances
        self._graph = _graph(index)

    def search(
        self, queries: npt.ArrayLike, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Scores and row numbers, best first, (n, k) each; -inf and -1 where fewer were found."""
        checked = check_queries(queries, k, self.dim)
        spans = merge_ranges(ranges, self.size)
        total = row_count(spans)
        if not total or not len(checked):
            return no_rows(len(checked), k)
        if self._graph and self._graph.visits(k, total / self.size) >= total:
            return self._graph.rows.search(checked, k, spans)
        fetch = min(k + _MARGIN, total)
        selector = None if total == self.size else selector_of(spans, self.size)
        scores, rows = self._fetch(checked, fetch, selector, wider=self.size / total)
        short = np.flatnonzero((rows[:, : min(k, total)] < 0).any(axis=1))
        if len(short):
            # The rows asked for lie far from the query: look everywhere.
            if self._graph:
                found = self._graph.rows.search(checked[short], fetch, spans)
            else:
                found = self._fetch(checked[short], fetch, selector, wider=self.size)
            scores[short], rows[short] = found
        return best_first(scores, rows, k)

    def save(self, path: Path) -> None:
        """Write one file."""
        write_index(self._index, path)

    def _fetch(
        self, queries: FloatArray, count: int, selector: Any, *, wider: float
    ) -> tuple[FloatArray, IntArray]:
        kind = type(self._index).__name__
        core, lists, visited = _core(self._index), 0, float(self.size)
        if isinstance(core, faiss.IndexIVF):
            lists = min(math.ceil((self._lists or core.nprobe or 1) * wider), core.nlist)
            visited *= lists / core.nlist
        params = _parameters(self._index, selector, lists, wider=wider)
        with (
            faiss_errors(f"{kind} cannot be searched", hint="Use kglink/flat for this."),
            threads_for(int(len(queries) * visited * self.dim)),
        ):
            asked = queries
            if self._distances:
                asked = np.column_stack([queries, np.zeros(len(queries), np.float32)])
            scores, rows = self._index.search(asked, count, params=params)
        if rows.max(initial=-1) >= self.size:  # faiss checks graphs, but not the ids in lists
            raise DamagedSpaceError("the index names rows that it does not have")
        if self._distances and self.size:
            # All rows have one length with their last coordinate: |q - x|² = |q|² + that - 2 q x.
            longest = float(_squares(self._index.reconstruct(0)[None])[0])
            products = (_squares(queries)[:, None] + longest - scores) / 2
            scores = np.where(rows >= 0, products, -np.inf).astype(np.float32)
        return scores, rows


def _drawn(rows: int, most: int) -> IntArray:
    """Numbers of some rows, in order, the same each time; of all where they are no more."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def _share(found: IntArray, wanted: IntArray) -> float:
    """How much of what is wanted was found, query by query; -1 is nothing."""
    pairs = zip(found, wanted, strict=True)
    hits = sum(len(np.intersect1d(some[some >= 0], best)) for some, best in pairs)
    return hits / max(1, int((wanted >= 0).sum()))


def _squares(rows: FloatArray) -> FloatArray:
    """The squared length of each row."""
    found: FloatArray = np.einsum("rd,rd->r", rows, rows)
    return found


def _blocks(rows: int) -> Iterator[slice]:
    """The rows that are added together."""
    return (slice(start, start + _ADDED) for start in range(0, rows, _ADDED))


@dataclass(frozen=True, slots=True)
class _Graph:
    """What is known of an HNSW index: its rows by themselves, and what a search of it costs."""

    rows: VectorIndex
    links: int
    effort: int

    def visits(self, k: int, share: float) -> float:
        """About how many rows a search compares that must find its answer in this share of all.

        Measured: beyond it the graph is faster than comparing all rows, for a query alone.
        """
        return max(k, self.effort) * self.links / share


def _graph(index: Any) -> _Graph | None:
    """An HNSW index as a graph and its rows; None for any other."""
    index = faiss.downcast_index(index)
    if not isinstance(index, faiss.IndexHNSW):
        return None
    rows = _wrap(faiss.downcast_index(index.storage), FactorySettings())
    # The lowest level, where nearly all of a search takes place, has twice as many links.
    return _Graph(rows, index.hnsw.nb_neighbors(0) // 2, index.hnsw.efSearch)


def _wrap(index: Any, settings: FactorySettings) -> VectorIndex:
    """A flat index is exact, whoever made it."""
    products = index.metric_type == faiss.METRIC_INNER_PRODUCT
    flat = isinstance(index, faiss.IndexFlat) and products
    return FlatIndex(index) if flat else FactoryIndex(index, settings)


def _core(index: Any) -> Any:
    """The index below transformations and refinements."""
    while True:
        index = faiss.downcast_index(index)
        if isinstance(index, faiss.IndexPreTransform):
            index = index.index
        elif isinstance(index, faiss.IndexRefine):
            index = index.base_index
        else:
            return index


def _parameters(index: Any, selector: Any, lists: int, *, wider: float) -> Any:
    """Search parameters of the right class for an index and all that it wraps.

    ``lists`` are looked into; ``wider``: how many times as many nodes of a graph are visited as in
    a search without a selector.
    """
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        inner = _parameters(index.index, selector, lists, wider=wider)
        return faiss.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexRefine):
        inner = _parameters(index.base_index, selector, lists, wider=wider)
        return faiss.IndexRefineSearchParameters(base_index_params=inner)
    if isinstance(index, faiss.IndexIVF):
        coarse = None
        if isinstance(faiss.downcast_index(index.quantizer), faiss.IndexHNSW):  # else it finds few
            coarse = faiss.SearchParametersHNSW(efSearch=lists)
        return faiss.SearchParametersIVF(sel=selector, nprobe=lists, quantizer_params=coarse)
    if isinstance(index, faiss.IndexHNSW):
        effort = min(index.ntotal, math.ceil(index.hnsw.efSearch * wider))
        return faiss.SearchParametersHNSW(sel=selector, efSearch=effort)
    return faiss.SearchParameters(sel=selector) if selector is not None else None
