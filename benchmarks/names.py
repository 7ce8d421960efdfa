"""The name index: seconds to build, ms per query, memory, on synthetic names.

    python benchmarks/names.py [--names 100000 1000000]

The floor of a query is one pass of numpy over the postings of its trigrams.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np

from kglink.files.tables import StringWriter
from kglink.space.names import NameIndex, build_name_index, gram_counts
from kglink.text.fold import fold

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from worlds import World, WorldSettings

QUERIES = 256
TOP = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, nargs="+", default=[100_000, 1_000_000])
    for count in parser.parse_args().names:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), count)


def measure(folder: Path, count: int) -> None:
    """Build an index of ``count`` names and ask it."""
    world = World(WorldSettings(seed=1, kbs=("atlas",), entities=count))
    surfaces = (
        surface
        for entity in world.entities("atlas")
        for surface in (entity.title, *(alias.surface for alias in entity.aliases))
    )
    with StringWriter(folder / "folded") as table:
        for surface in islice(surfaces, count):
            table.add(fold(surface))
    began = time.monotonic()
    build_name_index(folder, folder)
    build = time.monotonic() - began
    index = NameIndex(folder)
    queries = [index.folded[at * (count // QUERIES)][:-1] for at in range(QUERIES)]
    index.similar(queries[:8], TOP)
    batch = statistics.median(timed(index, queries) for _ in range(5)) / QUERIES
    single = statistics.median(timed(index, [query]) for query in queries[:64])
    floor = statistics.median(postings_pass(count, query) for query in queries[:16])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{count:>9,} names: built in {build:.1f} s, {1000 * batch:.2f} ms a query in a batch of "
        f"{QUERIES}, {1000 * single:.2f} ms alone, one numpy pass {1000 * floor:.2f} ms, "
        f"peak {peak:,.0f} MB"
    )


def timed(index: NameIndex, queries: list[str]) -> float:
    """Seconds for one batch."""
    began = time.monotonic()
    index.similar(queries, TOP)
    return time.monotonic() - began


def postings_pass(count: int, query: str) -> float:
    """Seconds to add one float for each name, once for each trigram of the query."""
    scores = np.zeros(count, dtype=np.float32)
    began = time.monotonic()
    for _ in range(gram_counts([query]).nnz):
        scores += 1
    return time.monotonic() - began


if __name__ == "__main__":
    main()
