"""Ingest rate of the entity store against bare sqlite3, and its peak memory.

Run: python benchmarks/ingest.py [entities ...]

The floor writes the very rows that the store wrote (entities, aliases with their folded forms,
cross-references), read back and held ready in memory, with `sqlite3.executemany` into the same
tables, indexes and pragmas, in the same batches. It checks, folds, hashes, counts and looks up
nothing. The store gets finished records and does all of that within its time. Each figure is the
median of three runs, store and floor in turn; each run is a process of its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kglink.records import Alias, Entity
from kglink.store import IngestJob, Store
from kglink.store.backends import SQLite

RUNS = 3
SIZES = (10_000, 100_000, 200_000)
BATCH = 2000
JOB = IngestJob("bench", "none", "made up", "1", batch_size=BATCH)


def records(count: int) -> Iterator[Entity]:
    """Entities as an encyclopedia has them: four names and 200 characters of text, any order."""
    for i in range(count):
        number = i * 7919 % count
        yield Entity(
            f"Q{number}",
            f"The Place Called Number {number}",
            f"A settlement of {number} souls on the river, known for its market. " * 3,
            type="place",
            url=f"https://example.org/wiki/{number}",
            popularity=number % 97 / 97,
            language="en",
            aliases=(
                Alias(f"Place No. {number}", "synonym"),
                Alias(f"Émile's Landing {number % 5000}", "redirect"),
                Alias(f"P-{number}", "anchor", 3),
            ),
            xrefs=(f"GEO:{number}",),
        )


def prepared_records(count: int) -> list[Entity]:
    """All records at once, out of the garbage collector's sight: they are not the store's."""
    ready = list(records(count))
    gc.freeze()
    return ready


def run_store(path: Path, count: int) -> float:
    """Seconds to write finished records."""
    ready = prepared_records(count)
    with Store.open(f"sqlite:///{path}") as store:
        started = time.perf_counter()
        store.ingest(JOB, ready)
        return time.perf_counter() - started


def run_update(path: Path, count: int) -> float:
    """Seconds to find that nothing has changed in a store that holds the records."""
    ready = prepared_records(count)
    with Store.open(f"sqlite:///{path}") as store:
        started = time.perf_counter()
        store.ingest(JOB, ready)
        return time.perf_counter() - started


def run_memory(path: Path, count: int) -> float:
    """Peak MiB of a process that ingests a stream."""
    with Store.open(f"sqlite:///{path}") as store:
        store.ingest(JOB, records(count))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_floor(path: Path, count: int) -> float:
    """Seconds to write the rows of a finished store with the bare driver."""
    tables = ("kbs", "entities", "aliases", "xrefs")
    done = sqlite3.connect(path)
    rows = {table: done.execute(f"SELECT * FROM {table}").fetchall() for table in tables}  # noqa: S608 - our own names
    done.close()
    copy = path.with_name("floor.db")
    Store.open(f"sqlite:///{copy}").close()
    bare = sqlite3.connect(copy)
    SQLite.tune(bare)
    inserts = {
        table: f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[table][0]))})"  # noqa: S608 - our own names
        for table in tables
    }
    each = {table: -(-len(rows[table]) // count) * BATCH for table in tables}
    started = time.perf_counter()
    for batch in range(-(-count // BATCH)):
        bare.execute("BEGIN IMMEDIATE")
        for table in tables:
            first = batch * each[table]
            bare.executemany(inserts[table], rows[table][first : first + each[table]])
        bare.execute("COMMIT")
    seconds = time.perf_counter() - started
    bare.close()
    return seconds


KINDS = {"store": run_store, "floor": run_floor, "memory": run_memory, "update": run_update}


def child(kind: str, path: Path, count: int) -> float:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--kind", kind, "--path", str(path), str(count)]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def measure(count: int) -> None:
    """Print the figures of one size."""
    seconds: dict[str, list[float]] = {"store": [], "floor": [], "update": []}
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "store.db"
            for kind, figures in seconds.items():
                figures.append(child(kind, path, count))
    with tempfile.TemporaryDirectory() as folder:
        memory = child("memory", Path(folder) / "store.db", count)
    store, floor, update = (statistics.median(figures) for figures in seconds.values())
    print(
        f"{count:>9,} {count / store:>12,.0f} {count / floor:>12,.0f} {store / floor:>6.2f} "
        f"{count / update:>12,.0f} {memory:>9,.0f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kind:
        print(KINDS[options.kind](options.path, options.sizes[0]))
        return
    print(" entities      store/s      floor/s  ratio    no change/s  peak MiB")
    for count in options.sizes:
        measure(count)


if __name__ == "__main__":
    main()
