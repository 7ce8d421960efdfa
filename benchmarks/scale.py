"""What the size of a KB costs: reading it, linking texts by its names, and changing one entity.

    python benchmarks/scale.py 10000 100000 1000000
    python benchmarks/scale.py 10000 --vectors
    python benchmarks/scale.py 10000 --store postgresql+psycopg://user@host/database

The worlds are synthetic: names of one to four words, which follow Zipf's law as popularity does.
Every step but the updates is a process of its own. For each size it prints seconds, peak memory and
disk, first those that `kglink plan` foretells, and last for each step the exponent of its growth: 0
is constant, 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

#: Texts that are linked, and names in each.
TEXTS, NAMES = 1000, 4
TEXT = "They met Zorbanek Quillfeather in the harbour of Vardomir."
#: Runs in one process that has linked once: adds an entity, then changes it.
UPDATES = """
import json, sys, time
from kglink import Alias, Entity, Workspace

def linked(workspace, text):
    return [link.chosen.title for one in workspace.link(text, wait=False)
            for link in one.links if link.chosen]

told = {}
with Workspace.open(".") as workspace:
    linked(workspace, "They met nobody.")
    for what, title in (("add", "Zorbanek Quillfeather"), ("change", "Zorbanek Merryweather"),
                        ("change again", "Zorbanek Fairweather")):
        began = time.perf_counter()
        workspace.add_entity("world", Entity("Z1", title, "A sailor of Vardomir."))
        stored = time.perf_counter()
        found = linked(workspace, f"They met {title} there.")
        told[what] = [stored - began, time.perf_counter() - began]
        assert title in found, found
print(json.dumps(told))
"""


class Cost(NamedTuple):
    """What a step took."""

    seconds: float
    megabytes: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--vectors", action="store_true", help="make vectors as well")
    parser.add_argument("--store", default="", help="a PostgreSQL database that holds no store")
    asked = parser.parse_args()
    seconds: dict[str, dict[int, float]] = {}
    for size in asked.sizes:
        with tempfile.TemporaryDirectory() as made:
            for step, cost in measured(Path(made), size, asked.vectors, asked.store):
                seconds.setdefault(step, {})[size] = cost.seconds
                print(
                    f"{size:>10,}  {step:22} {cost.seconds:8.2f} s {cost.megabytes:8,.0f} MB",
                    flush=True,
                )
    for step, at in seconds.items():
        if len(at) > 1:
            grown = ", ".join(f"{exponent(at, *both):5.2f}" for both in pairwise(at))
            print(f"growth      {step:22} {grown}")


def exponent(at: dict[int, float], small: int, large: int) -> float:
    """How the seconds of a step grow with the size."""
    return math.log(at[large] / at[small]) / math.log(large / small)


def measured(folder: Path, size: int, vectors: bool, store: str) -> Iterator[tuple[str, Cost]]:
    """Each step with what it took; that of a folder is its disk in MB."""
    with (folder / "world.jsonl").open("w", encoding="utf-8") as world:
        world.writelines(records(size))
    with settings(vectors, store):
        for step in planned(folder)["steps"]:
            yield f"plan: {step['name']}", Cost(step["seconds"], step["memory_mb"])
            yield f"plan: disk, {step['name']}", Cost(0.001, step["disk_mb"])
        yield "add-kb", ran(folder, "kglink_cli", "add-kb", "world", "world.jsonl")
        if vectors:
            yield "build", ran(folder, "kglink_cli", "build")
        for step in ("first link", "warm link", "warm link again"):
            yield step, ran(folder, "kglink_cli", "link", "-", text=TEXT)
        write_texts(folder, size)
        yield f"{TEXTS:,} texts", ran(folder, "kglink_cli", "link", "texts", "-o", "links.jsonl")
        for name in ("kglink.db", "spaces"):
            yield f"disk: {name}", Cost(0.001, disk(folder / name))
        began = time.perf_counter()
        told = json.loads(output(folder, UPDATES))
        for step, (stored, linkable) in told.items():
            yield f"{step}: stored", Cost(stored, 0)
            yield f"{step}: linkable", Cost(linkable, 0)
        yield "three updates", Cost(time.perf_counter() - began, 0)
        (folder / "one.jsonl").write_text(
            json.dumps({"id": "Z1", "title": "Zorbanek Silverweather"}) + "\n", encoding="utf-8"
        )
        yield (
            "add-kb --merge of one",
            ran(folder, "kglink_cli", "add-kb", "world", "one.jsonl", "--merge"),
        )
        yield "link after it", ran(folder, "kglink_cli", "link", "-", text=TEXT)
        yield "disk: spaces, after", Cost(0.001, disk(folder / "spaces"))


@contextmanager
def settings(vectors: bool, store: str) -> Iterator[None]:
    """The settings of all steps, as variables of the environment."""
    told = {"KGLINK_LINK_FOUND_BY": "all" if vectors else "names"}
    if store:
        told["KGLINK_STORE_URL"] = store
    before = dict(os.environ)
    os.environ.update(told)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def records(size: int) -> Iterator[str]:
    """The lines of a world, the same ones for the same size."""
    chance = random.Random(size)  # noqa: S311 - the same world each time
    consonants, vowels = "bcdfghklmnprstvwz", "aeiou"
    words = [
        "".join(
            chance.choice(consonants) + chance.choice(vowels) for _ in range(chance.randint(2, 4))
        )
        for _ in range(max(2000, size // 8))
    ]
    total = list(accumulate(1 / (rank + 10) for rank in range(len(words))))
    for number in range(size):
        title, alias, about = (
            " ".join(chance.choices(words, cum_weights=total, k=count))
            for count in (chance.randint(1, 4), chance.randint(1, 3), 12)
        )
        record = {
            "id": f"E{number:08d}",
            "title": title.title(),
            "description": about,
            "popularity": round(1000 / (1 + chance.randrange(size)), 6),
            "aliases": [alias.title()] if number % 2 else [],
        }
        yield json.dumps(record) + "\n"


def write_texts(folder: Path, size: int) -> None:
    """Write texts of about 500 letters that name some of the entities, from all places."""
    (folder / "texts").mkdir()
    with (folder / "world.jsonl").open(encoding="utf-8") as world:
        some = map(json.loads, islice(world, 0, None, max(1, size // (TEXTS * NAMES))))
        for number in range(TEXTS):
            told = [f"{one['title']} {one['description']}." for one in islice(some, NAMES)]
            (folder / "texts" / f"{number}.txt").write_text(" ".join(told), encoding="utf-8")


def ran(folder: Path, module: str, *arguments: str, text: str = "") -> Cost:
    """Run a command, and say what it cost."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as told:
        given.write(text.encode())
        given.seek(0)
        command = [sys.executable, "-m", module, *arguments]
        child = subprocess.Popen(
            command, cwd=folder, stdin=given, stdout=subprocess.DEVNULL, stderr=told
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            told.seek(0)
            raise SystemExit(f"{' '.join(command)}: {told.read().decode()}")
    return Cost(time.perf_counter() - began, used.ru_maxrss / 1024)


def planned(folder: Path) -> dict[str, Any]:
    """What `kglink plan` says that the world will take."""
    command = [sys.executable, "-m", "kglink_cli", "plan", "world.jsonl", "--json"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def output(folder: Path, program: str) -> str:
    """What a Python program prints."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def disk(path: Path) -> float:
    """How many MB a file or a folder takes; what is linked twice counts once."""
    files = [path, *path.rglob("*")] if path.is_dir() else path.parent.glob(f"{path.name}*")
    sizes = {stat.st_ino: stat.st_size for stat in (one.stat() for one in files if one.is_file())}
    return sum(sizes.values()) / 1e6


if __name__ == "__main__":
    main()
