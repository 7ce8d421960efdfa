"""Milliseconds per query of each index kind, against the machine's own floor in the same run.

    python benchmarks/search.py [--rows 100000] [--dim 384] [--k 64] [--slow]

The floor of one query is reading all rows once (their sum); of a batch it is the bare matrix
product of the batch and the rows by numpy. Recall is the share of the exact answer that a kind
returns. Rows are drawn around 5,000 centres, as texts of one field are; ``--slow`` adds HNSW,
whose graph takes minutes to build.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kglink.models.hardware import usable_cores
from kglink.plugins import RowRange, VectorIndex
from kglink_plugins.indexes.factory import FactoryBackend
from kglink_plugins.indexes.flat import FlatBackend
from kglink_plugins.plugin import FactorySettings

FloatArray = npt.NDArray[np.float32]
BATCHES = (1, 64)


def clustered(count: int, dim: int, seed: int) -> FloatArray:
    """Unit vectors around 5,000 centres that all seeds share."""
    centres = np.random.default_rng(0).standard_normal((5000, dim), dtype=np.float32)
    rng = np.random.default_rng(seed)
    rows = centres[rng.integers(5000, size=count)]
    rows += 0.7 * rng.standard_normal((count, dim), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def milliseconds(work: Callable[[], object], runs: int = 15) -> float:
    """The best time of several calls, the first of which does not count."""
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def report(name: str, times: list[float], floors: list[float], note: str) -> None:
    """One line: ms per query for each batch size, and as a multiple of the floor."""
    cells = [
        f"{ms / size:9.3f} ms ({ms / floor:6.2f} x)"
        for size, ms, floor in zip(BATCHES, times, floors, strict=True)
    ]
    print(f"{name:16}", *cells, note)


def measure(
    index: VectorIndex, queries: FloatArray, k: int, ranges: list[RowRange] | None = None
) -> list[float]:
    """The time of each batch size."""
    return [milliseconds(partial(index.search, queries[:size], k, ranges)) for size in BATCHES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--k", type=int, default=64)
    parser.add_argument("--slow", action="store_true", help="measure HNSW as well")
    options = parser.parse_args()
    rows = clustered(options.rows, options.dim, seed=1)
    queries = clustered(max(BATCHES), options.dim, seed=2)
    print(f"{options.rows:,} rows x {options.dim}, k = {options.k}, {usable_cores()} cores")
    print(f"{'':16}", *(f"{f'batch of {size}, per query':24}" for size in BATCHES))
    floors = [milliseconds(rows.sum), milliseconds(lambda: queries @ rows.T)]
    report("floor", floors, floors, "one read of all rows; the bare matrix product")

    flat = FlatBackend().build([rows], options.dim)
    exact = flat.search(queries, options.k)[1]
    report("flat", measure(flat, queries, options.k), floors, "exact")
    quarter = options.rows // 4
    for name, ranges in (
        ("flat, 1 KB of 2", [RowRange(0, 2 * quarter)]),
        ("flat, 2 KBs of 4", [RowRange(0, quarter), RowRange(2 * quarter, 3 * quarter)]),
    ):
        report(name, measure(flat, queries, options.k, ranges), floors, "half of the rows")
    for factory in ("SQfp16", "SQbf16", "IVF1024,SQfp16", *(["HNSW32"] if options.slow else [])):
        start = time.perf_counter()
        index = FactoryBackend(FactorySettings(factory=factory)).build([rows], options.dim)
        built = time.perf_counter() - start
        found = index.search(queries, options.k)[1]
        recall = np.mean([np.isin(*pair).mean() for pair in zip(found, exact, strict=True)])
        note = f"recall {recall:.3f}, built in {built:.1f} s, {megabytes(index):.0f} MB"
        report(factory, measure(index, queries, options.k), floors, note)


def megabytes(index: VectorIndex) -> float:
    """The size of an index's file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        index.save(path)
        return path.stat().st_size / 1e6


if __name__ == "__main__":
    main()
