"""Several processes that each add a KB to one store at the same time, and one that reads another.

    python benchmarks/writers.py [URL] [--entities 20000] [--writers 1 2 4]

Without a URL the store is SQLite in a temporary folder, with that of a PostgreSQL database a new
schema for every round, which is dropped. The records are those of `ingest.py`, ready in memory
before the clock starts. The reader asks for 64 entities of a KB that was there before, again and
again; a round without writers says what that takes alone.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from ingest import BATCH, prepared_records
from sqlalchemy import create_engine, make_url, text

from kglink.records import EntityId
from kglink.store import IngestJob, Store

READ, ASKED = 5_000, 64


def add(url: str, kb: str, count: int) -> None:
    """Add a KB, when told to begin; the seconds of processor time are printed."""
    ready = prepared_records(count)
    with Store.open(url) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.process_time()
        store.ingest(IngestJob(kb, "none", "made up", "1", batch_size=BATCH), ready)
        print(time.process_time() - began)


@contextmanager
def fresh(server: str) -> Iterator[str]:
    """The URL of a store with nothing in it."""
    with tempfile.TemporaryDirectory() as folder:
        if not server:
            yield f"sqlite:///{folder}/kglink.db"
            return
        schema = f"kglink_writers_{os.getpid()}"
        engine = create_engine(server, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
        made = make_url(server).update_query_dict({"options": f"-csearch_path={schema}"})
        yield made.render_as_string(hide_password=False)
        with engine.connect() as connection:
            connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))


def measure(server: str, writers: int, count: int) -> str:
    """One round, as a row of the table."""
    with fresh(server) as url, Store.open(url) as store:
        job = IngestJob("read", "none", "made up", "1", batch_size=BATCH)
        store.ingest(job, prepared_records(READ))
        command = [sys.executable, __file__, url, "--entities", str(count), "--kb"]
        pipe = subprocess.PIPE
        running = [
            subprocess.Popen([*command, f"kb{at}"], stdin=pipe, stdout=pipe, text=True)
            for at in range(writers)
        ]
        pipes = [(one.stdin, one.stdout) for one in running if one.stdin and one.stdout]
        for _, said in pipes:
            said.readline()
        began = time.perf_counter()
        for told, _ in pipes:
            told.write("\n")
            told.flush()
        draw, seconds = np.random.default_rng(17), 0.0
        reads: list[float] = []
        while any(one.poll() is None for one in running) or (not writers and len(reads) < 300):
            asked = [EntityId("read", f"Q{draw.integers(READ)}") for _ in range(ASKED)]
            start = time.perf_counter()
            found = store.get_entities(asked)
            reads.append(1000 * (time.perf_counter() - start))
            if found.keys() != {*asked}:
                sys.exit("a reader missed entities")
            seconds = time.perf_counter() - began
            time.sleep(0.01)
        cpu = sum(float(one.communicate()[0]) for one in running)  # of one that failed: no number
        rate = f"{writers * count / seconds:,.0f}" if writers else ""
        slowest = f"{statistics.median(reads):.1f}, {max(reads):.0f}"
        times = [f"{seconds:.1f}", f"{cpu:.1f}", rate] if writers else [""] * 3
        return " | ".join([str(writers), *times, slowest])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("url", nargs="?", default="")
    parser.add_argument("--entities", type=int, default=20_000)
    parser.add_argument("--writers", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--kb", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kb:
        add(options.url, options.kb, options.entities)
        return
    print("writers | s | processor s of the writers | entities a second | a read: median, most ms")
    for writers in options.writers:
        print(measure(options.url, writers, options.entities), flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
