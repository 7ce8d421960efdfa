"""Recall and milliseconds per query of the index presets, against exact search.

    python benchmarks/index_presets.py [--rows 200000] [--dim 384] [--queries 256] [--preset NAME]
    python benchmarks/index_presets.py --workspace FOLDER [--queries 256] [--preset NAME]

Rows are drawn around 5,000 centres, as texts of one field are. Each preset is asked for the best
1, 10 and 100 of all rows, of a KB that is a quarter of them, and of one that is a hundredth; times
are of the search for 100, a query alone and among 64. Below a graph stands what faiss itself makes
of the same file within a KB, without our looking further and scanning. Then HNSW by inner products
is set beside BLINK's reduction to L2 distances, on at most 20,000 rows whose lengths differ; and
faiss-gpu beside faiss-cpu, where both a GPU and a faiss that uses it are there.

With --workspace the presets are tried on the vectors of that workspace's space, asked with mentions
of its documents; the space stays as it is.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
from search import clustered

from kglink.linking.reading import MentionReader
from kglink.models.hardware import usable_cores
from kglink.plugins import IndexBackend, RowRange, VectorIndex, load_registry
from kglink.space.index import IndexChoice, trial_index
from kglink.space.recall import measure_index
from kglink.space.rescored import AskedIndex
from kglink.workspace import Workspace
from kglink.workspace.index import Value, index_queries, presets_of
from kglink_plugins.indexes.flat import FlatBackend
from kglink_plugins.indexes.rows import faiss

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
Search = Callable[[FloatArray, int], IntArray]

KS = (1, 10, 100)
BATCH, ALONE = 64, 16


@dataclass(frozen=True)
class Part:
    """Rows that are searched together."""

    name: str
    rows: RowRange


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=256)
    parser.add_argument("--preset", action="append", help="only this one; may be repeated")
    parser.add_argument("--workspace", type=Path, help="try them on the space of this workspace")
    options = parser.parse_args()
    if options.workspace:
        try_on_space(options.workspace, options.queries, options.preset or [])
        return
    rows = clustered(options.rows, options.dim, seed=1)
    queries = clustered(options.queries, options.dim, seed=2)
    parts = [
        Part("all rows", RowRange(0, options.rows)),
        Part("KB of 25 %", RowRange(options.rows // 2, options.rows * 3 // 4)),
        Part("KB of 1 %", RowRange(options.rows // 4, options.rows // 4 + options.rows // 100)),
    ]
    print(f"{options.rows:,} rows x {options.dim}, {options.queries} queries, "
          f"{usable_cores()} cores")  # fmt: skip
    compare_presets(rows, queries, parts, options.preset or [])
    few = min(options.rows, 20_000)
    compare_reduction(rows[:few], queries)
    compare_gpu(rows, queries)


def try_on_space(folder: Path, queries: int, wanted: list[str]) -> None:
    """Recall and times of each preset on a space's own vectors, part by part."""
    with Workspace.open(folder) as workspace:
        space, registry = workspace.space(), workspace.registry
        reader = MentionReader(workspace.encoder, workspace.settings.link.window_chars)
        asked = index_queries(workspace.store, space, reader, queries)

        def backend_of(name: str, settings: Mapping[str, Value]) -> IndexBackend:
            return registry.create("index", name, settings)

        with trial_index(space.folder, IndexChoice("kglink/flat", {}), backend_of) as exact:
            for name, preset in presets_of(registry).items():
                if wanted and name not in wanted:
                    continue
                choice = IndexChoice(preset.index, preset.settings)
                with trial_index(space.folder, choice, backend_of) as trial:
                    print(f"\n{name}: built in {trial.seconds:.1f} s, {trial.bytes / 1e6:,.1f} MB")
                    index = AskedIndex(name, trial.index, space.vectors)
                    for part in measure_index(space, index, exact.index, asked):
                        shares = (f"R@{k} {share:.3f}" for k, share in part.recall.items())
                        print(f"{part.part.name:22}", *shares, f"{part.index.alone:.2f} ms alone")


def compare_presets(
    rows: FloatArray, queries: FloatArray, parts: list[Part], wanted: list[str]
) -> None:
    registry = load_registry(only="builtin")
    exact = FlatBackend().build([rows], rows.shape[1])
    answers = {part: exact.search(queries, max(KS), [part.rows])[1] for part in parts}
    for name, preset in presets_of(registry).items():
        if wanted and name not in wanted:
            continue
        backend = registry.create("index", preset.index, preset.settings)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "index"
            began = time.perf_counter()
            backend.build([rows], rows.shape[1]).save(path)
            built = time.perf_counter() - began
            index = backend.load(path)
            size = path.stat().st_size / 1e6
            print(f"\n{name}: built in {built:.1f} s, {size:,.0f} MB")
            head = (f"R@{k}" for k in KS)
            print(f"{'':22}", *(f"{word:>7}" for word in (*head, "alone", "of 64")))
            for part in parts:
                report(part.name, kglink_search(index, part), queries, answers[part])
                if "HNSW" in str(preset.settings.get("factory", "")) and part is not parts[0]:
                    plain = faiss_search(path, part, int(preset.settings["ef_search"]))
                    report(f"{part.name}, faiss alone", plain, queries, answers[part])


def kglink_search(index: VectorIndex, part: Part) -> Search:
    return lambda queries, k: index.search(queries, k, [part.rows])[1]


def faiss_search(path: Path, part: Part, effort: int) -> Search:
    """The graph with faiss's own filter."""
    index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    selector = faiss.IDSelectorRange(part.rows.start, part.rows.stop)
    params = faiss.SearchParametersHNSW(sel=selector, efSearch=effort)

    def search(queries: FloatArray, k: int) -> IntArray:
        found: IntArray = index.search(queries, k, params=params)[1]
        return found

    return search


def report(name: str, search: Search, queries: FloatArray, answers: IntArray) -> None:
    """One line: recall at each k, milliseconds per query."""
    shares = [recall(search(queries, k), answers[:, :k]) for k in KS]
    alone = [timed(search, queries[at : at + 1]) for at in range(ALONE)]
    together = [timed(search, queries[at : at + BATCH]) / BATCH
                for at in range(0, len(queries) - BATCH + 1, BATCH)]  # fmt: skip
    times = [median(alone), median(together)] if together else [median(alone)]
    print(
        f"{name:22}",
        *(f"{share:7.3f}" for share in shares),
        *(f"{ms:7.2f}" for ms in times),
    )


def recall(found: IntArray, wanted: IntArray) -> float:
    there = wanted >= 0
    hits = [np.isin(best, rows) for best, rows in zip(wanted, found, strict=True)]
    return float((np.stack(hits) & there).sum() / max(1, there.sum()))


def timed(search: Search, queries: FloatArray) -> float:
    began = time.perf_counter()
    search(queries, max(KS))
    return 1000 * (time.perf_counter() - began)


def compare_reduction(rows: FloatArray, queries: FloatArray) -> None:
    """R@10 of HNSW128 by inner products and by BLINK's reduction to L2, efSearch 128."""
    print(f"\nHNSW128, efSearch 128, R@10 of {len(rows):,} rows by how much their lengths differ")
    print(f"{'spread of lengths':22}{'by products':>14}{'reduced to L2':>14}")
    lengths = np.random.default_rng(3).standard_normal((len(rows), 1)).astype(np.float32)
    for spread in (0.0, 0.05, 0.15):
        scaled = rows * np.exp(spread * lengths)
        wanted = FlatBackend().build([scaled], scaled.shape[1]).search(queries, 10)[1]
        squares = np.einsum("rd,rd->r", scaled, scaled)
        last = np.sqrt(np.maximum(squares.max() - squares, 0))[:, None]
        products = graph(scaled, faiss.METRIC_INNER_PRODUCT)
        reduced = graph(np.hstack([scaled, last]), faiss.METRIC_L2)
        asked = np.hstack([queries, np.zeros((len(queries), 1), np.float32)])
        figures = (
            recall(products.search(queries, 10)[1], wanted),
            recall(reduced.search(asked, 10)[1], wanted),
        )
        print(f"{spread:<22}{figures[0]:14.3f}{figures[1]:14.3f}")


def graph(rows: FloatArray, metric: int) -> faiss.IndexHNSWFlat:
    index = faiss.IndexHNSWFlat(rows.shape[1], 128, metric)
    index.hnsw.efConstruction, index.hnsw.efSearch = 200, 128
    index.add(rows)
    return index


def compare_gpu(rows: FloatArray, queries: FloatArray) -> None:
    """The exact index on a GPU: the same ids, and scores within 1e-3."""
    print()
    if not hasattr(faiss, "StandardGpuResources"):
        print("faiss-gpu: unmeasured (the faiss that is installed uses no GPU)")
        return
    if not faiss.get_num_gpus():
        print("faiss-gpu: unmeasured (no GPU is there)")
        return
    cpu = FlatBackend().build([rows], rows.shape[1])
    resources = faiss.StandardGpuResources()
    config = faiss.GpuIndexFlatConfig()
    gpu = faiss.GpuIndexFlatIP(resources, rows.shape[1], config)
    gpu.add(rows)
    k = 64
    scores, ids = gpu.search(queries, k)
    wanted_scores, wanted_ids = cpu.search(queries, k)
    apart = float(np.abs(scores - wanted_scores).max())
    # Rows whose scores are equal but for rounding may change places.
    moved = ids != wanted_ids
    excused = np.abs(scores - wanted_scores)[moved] < 1e-6
    times = [timed(lambda q, k: cpu.search(q, k)[1], queries),
             timed(lambda q, k: gpu.search(q, k)[1], queries)]  # fmt: skip
    print(
        f"faiss-gpu: {moved.sum():,} of {ids.size:,} ids differ, {int((~excused).sum()):,} of them "
        f"by more than rounding; scores at most {apart:.1e} apart; "
        f"{times[0] / len(queries):.3f} ms per query on the CPU, {times[1] / len(queries):.3f} on "
        "the GPU"
    )
    if apart > 1e-3 or not excused.all():
        raise SystemExit("faiss-gpu and faiss-cpu do not agree")


if __name__ == "__main__":
    main()
