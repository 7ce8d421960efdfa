"""kill -9 of workers and of the command while texts are linked on Ray: the bytes as undisturbed?

    python benchmarks/cluster_kills.py WORKSPACE TEXTS [--seconds 3600] [--seed N]

TEXTS is a folder that makes some twenty chunks, such as a thousand texts of 500 letters. It is
linked by one process, and on Ray. Then it is linked again and again by two workers of a cluster
that the command starts, and at random moments a worker is killed, or the command with all that it
started. What was killed or has failed is started again until it ends; then its bytes must equal
those of the one process. Linux only.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

KGLINK = Path(sys.executable).with_name("kglink")
#: Runs that are disturbed before one may end.
RUNS = 8
#: How often it is the command that is killed.
OF_COMMAND = 0.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("workspace", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chance, until = random.Random(asked.seed), time.monotonic() + asked.seconds  # noqa: S311 - the same kills
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "links.jsonl"
        command = [KGLINK, "--workspace", asked.workspace, "link", asked.texts, "-o", out]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
        undisturbed = out.read_bytes()
        on_ray = [*map(str, command), "--engine", "ray", "--workers", "2"]
        out.unlink()
        began = time.monotonic()
        subprocess.run(on_ray, check=True, capture_output=True)
        calm = time.monotonic() - began
        while time.monotonic() < until:
            out.unlink()
            for run in range(RUNS + 1):
                ended = disturbed(on_ray, chance, calm if run < RUNS else 1e6, seen)
                seen[ended] += 1
                if ended == "whole":
                    break
            seen["equal" if out.exists() and out.read_bytes() == undisturbed else "WRONG"] += 1
            if not out.exists():
                break
            print(dict(seen), flush=True)
    if seen["WRONG"]:
        raise SystemExit(1)


def disturbed(command: list[str], chance: random.Random, longest: float, seen: Counter[str]) -> str:
    """Run a command and kill at random, ``longest`` seconds apart at most; how it ended."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while True:
        try:
            _, told = child.communicate(timeout=longest * chance.random())
        except subprocess.TimeoutExpired:
            below = descendants(child.pid)
            workers = [pid for pid in below if program(pid).startswith("ray::Worker")]
            if chance.random() < OF_COMMAND:
                for pid in (child.pid, *below):
                    kill(pid)
                child.communicate()
                return "command killed"
            if workers:
                kill(chance.choice(workers))
                seen["worker killed"] += 1
            continue
        if child.returncode:
            print(told.decode(errors="replace")[-2400:], flush=True)
        return "failed" if child.returncode else "whole"


def descendants(pid: int) -> list[int]:
    """All processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parent = path.read_text(errors="replace").rpartition(")")[2].split()[1]
            children[int(parent)].append(int(path.parent.name))
    found = [pid]
    for one in found:
        found += children[one]
    return found[1:]


def program(pid: int) -> str:
    """The command line of a process, as far as it says it."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def kill(pid: int) -> None:
    """End a process at once."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
