"""What Ray costs on one machine: a folder of texts, by one process, two workers, and Ray's two.

    python benchmarks/cluster.py WORKSPACE ../shared/data [--texts 300] [--rounds 5]
    python benchmarks/cluster.py DUMP [--rounds 5]

The second reads a dump of MediaWiki into new workspaces, by two processes and by Ray's two workers
on a cluster that runs: seconds, and processor time of all processes, those of the cluster too.

The workspace is built already. A text is three abstracts of BC5CDR. Rounds go through all engines
in turn, so that other work on the machine meets each alike; starts are in the times. Ray is asked
twice: as a cluster that runs already, and started by the command. The bytes are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from ray.cluster_utils import Cluster

RAY = ("--engine", "ray", "--workers", "2")
ENGINES = {
    "one process": (),
    "--workers 2": ("--workers", "2"),
    "Ray, two workers": RAY,
    "Ray, started for the run": RAY,
}


def texts(data: Path, count: int) -> list[str]:
    """Three abstracts each."""
    found: list[str] = []
    for part in ("development", "training"):
        packed = data / "disease" / "corpora" / f"bc5cdr_{part}.PubTator.txt.gz"
        with gzip.open(packed, "rt", encoding="utf-8") as lines:
            bodies = (line.split("|", 2) for line in lines if line.count("|") >= 2)
            found += [text.strip() for _, kind, text in bodies if kind == "a"]
    return ["\n\n".join(found[at : at + 3]) for at in range(0, len(found) - 2, 3)][:count]


def processor_seconds() -> dict[int, float]:
    """The processor time of each process below this one."""
    parents, seconds = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            seconds[pid] = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid: seconds[pid] for pid in ours - {os.getpid()}}


def processor_time_of(command: Sequence[object]) -> float:
    """What a command and the cluster take while it runs, looked at ten times a second."""
    before = processor_seconds()
    most: dict[int, float] = {}
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL) as running:
        while running.poll() is None:
            most |= processor_seconds()
            time.sleep(0.1)
    if running.returncode:
        sys.exit(f"it ended with {running.returncode}: {command}")
    return sum(seconds - before.get(pid, 0) for pid, seconds in most.items())


def ingest(dump: Path, rounds: int) -> None:
    """Read a dump by two processes, and by two workers of a cluster that runs."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    engines = {"two processes": ("--set", "workers=2"), "Ray, two workers": RAY}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
    stores = set()
    running = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    os.environ["RAY_ADDRESS"] = running.address
    for name, more in list(engines.items()) * rounds:
        with tempfile.TemporaryDirectory() as folder:
            kglink = [sys.executable, "-m", "kglink_cli", "--workspace", folder]
            subprocess.run([*kglink, "init", folder], check=True, capture_output=True)
            began = time.perf_counter()
            processors = processor_time_of([*kglink, "add-kb", "wiki", dump, *more])
            seconds[name].append((time.perf_counter() - began, processors))
            with sqlite3.connect(Path(folder, "kglink.db")) as store:
                rows = store.execute(
                    "SELECT key, content_hash FROM entities ORDER BY id"
                ).fetchall()
            stores.add(hash(tuple(rows)))
    running.shutdown()
    print(f"{dump.name}, load {os.getloadavg()[0]:.1f}; equal entities: {len(stores) == 1}")
    for name, taken in seconds.items():
        clock, processors = (median(values) for values in zip(*taken, strict=True))
        shown = ", ".join(f"{one:.1f} ({other:.1f})" for one, other in taken)
        print(f"{name:26} {clock:6.1f} s, {processors:6.1f} s of processors  ({shown})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("workspace", type=Path)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.data is None:
        ingest(options.workspace, options.rounds)
        return
    seconds: dict[str, list[float]] = {name: [] for name in ENGINES}
    with tempfile.TemporaryDirectory() as temporary:
        folder, outputs = Path(temporary, "texts"), Path(temporary, "outputs")
        folder.mkdir()
        outputs.mkdir()
        for number, text in enumerate(texts(options.data, options.texts)):
            (folder / f"{number:04}.txt").write_text(text, encoding="utf-8")
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        running = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        for name, more in list(ENGINES.items()) * options.rounds:
            output = outputs / f"{name.replace(' ', '')}.jsonl"
            command = [sys.executable, "-m", "kglink_cli", "--workspace", options.workspace]
            began = time.perf_counter()
            subprocess.run(
                [*command, "link", folder, "-o", output, *more],
                check=True,
                capture_output=True,
                env=os.environ | {"RAY_ADDRESS": "local" if "started" in name else running.address},
            )
            seconds[name].append(time.perf_counter() - began)
        running.shutdown()
        written = {path.read_bytes() for path in outputs.iterdir()}
    print(f"{options.texts} texts, load {os.getloadavg()[0]:.1f}; equal bytes: {len(written) == 1}")
    for name, taken in seconds.items():
        shown = ", ".join(f"{one:.1f}" for one in taken)
        print(f"{name:26} {median(taken):6.1f} s  ({shown})")
    ratio = median(seconds["Ray, two workers"]) / median(seconds["--workers 2"])
    print(f"Ray against two workers: {ratio - 1:+.1%}")


if __name__ == "__main__":
    main()
