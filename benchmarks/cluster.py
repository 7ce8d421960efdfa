"""What Ray costs on one machine: a folder of abstracts, by one process, two workers, and Ray's two.

    python benchmarks/cluster.py WORKSPACE ../shared/data [--texts 400] [--rounds 3]

The workspace is built already. Rounds go through all of them in turn, so that other work on the
machine meets each alike; starts are in the times. The bytes are compared.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median

ENGINES = {
    "one process": (),
    "--workers 2": ("--workers", "2"),
    "--engine ray --workers 2": ("--engine", "ray", "--workers", "2"),
}


def abstracts(data: Path, count: int) -> list[str]:
    """The abstracts of BC5CDR's development part, and those of its training part after them."""
    texts = []
    for part in ("development", "training"):
        packed = data / "disease" / "corpora" / f"bc5cdr_{part}.PubTator.txt.gz"
        with gzip.open(packed, "rt", encoding="utf-8") as lines:
            bodies = (line.split("|", 2) for line in lines if line.count("|") >= 2)
            texts += [text.strip() for _, kind, text in bodies if kind == "a"]
    return list(islice(texts, count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("workspace", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in ENGINES}
    with tempfile.TemporaryDirectory() as temporary:
        folder, outputs = Path(temporary, "texts"), Path(temporary, "outputs")
        folder.mkdir()
        outputs.mkdir()
        for number, text in enumerate(abstracts(options.data, options.texts)):
            (folder / f"{number:04}.txt").write_text(text, encoding="utf-8")
        for _ in range(options.rounds):
            for name, more in ENGINES.items():
                output = outputs / f"{name.replace(' ', '')}.jsonl"
                command = [sys.executable, "-m", "kglink_cli", "--workspace", options.workspace]
                began = time.perf_counter()
                subprocess.run(
                    [*command, "link", folder, "-o", output, *more],
                    check=True,
                    capture_output=True,
                )
                seconds[name].append(time.perf_counter() - began)
        written = {path.read_bytes() for path in outputs.iterdir()}
    print(f"{options.texts} texts, load {os.getloadavg()[0]:.1f}; equal bytes: {len(written) == 1}")
    for name, taken in seconds.items():
        shown = ", ".join(f"{one:.1f}" for one in taken)
        print(f"{name:26} {median(taken):6.1f} s  ({shown})")
    ratio = median(seconds["--engine ray --workers 2"]) / median(seconds["--workers 2"])
    print(f"Ray against two workers: {ratio - 1:+.1%}")


if __name__ == "__main__":
    main()
