"""What Ray costs on one machine: a folder of texts, by one process, two workers, and Ray's two.

    python benchmarks/cluster.py WORKSPACE ../shared/data [--texts 300] [--rounds 5]

The workspace is built already. A text is three abstracts of BC5CDR. Rounds go through all engines
in turn, so that other work on the machine meets each alike; starts are in the times. Ray is asked
twice: as a cluster that runs already, and started by the command. The bytes are compared.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("workspace", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
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
