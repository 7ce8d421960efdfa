"""kill -9 at random moments of ``kglink add-kb`` of a MediaWiki dump: is the end as if undisturbed?

Run: python benchmarks/wikipedia_kills.py [--dump FILE ...] [--pages N ...] [--kills 20] [--seed N]

A dump is first ingested undisturbed, and it is noted how far the ingest was at which second: files
in its scratch folder, records in the store. Then another ingest of the same dump is killed at
random moments of that time, one after the other: each time it is started again, and killed when it
is as far as the undisturbed one was at that moment, as much later as that moment was. After each
kill the workspace must open and list its KBs. In the end a digest of all rows of the store must
equal that of the undisturbed one. Only kills that hit a running ingest count; one that ends before
its moment ends the series, and another begins in a new workspace.
"""

from __future__ import annotations

import argparse
import bz2
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from worlds import World, WorldSettings, write_mediawiki_xml

PAGES = 100_000
KILLS = 20
LOOK_EVERY = 0.02
KGLINK = Path(sys.executable).with_name("kglink")
#: What differs between two ingests of the same source: numbers of runs, times, and what tells one
#: store from another.
VOLATILE = {"run", "updated_at", "identity", "origin", "overlaps"}


class Reached(NamedTuple):
    """How far an ingest is; compared in this order."""

    read_to_the_end: int = 0
    records: int = 0
    files: int = 0

    @property
    def stage(self) -> str:
        """The stage in words."""
        if self.read_to_the_end:
            return "finishing"
        if self.records:
            return "records"
        return "pages and names" if self.files else "starting"


class Moment(NamedTuple):
    """A moment of an ingest: so many seconds after it had come so far."""

    reached: Reached
    later: float


def start(workspace: Path, dump: Path, documents: int) -> subprocess.Popen[bytes]:
    """An ingest in a process of its own."""
    command = [KGLINK, "--workspace", workspace, "add-kb", "wiki", dump]
    options = ["--adapter", "kglink/wikipedia", "--set", f"documents={documents}"]
    return subprocess.Popen(
        [str(part) for part in (*command, *options)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def look(workspace: Path) -> Reached:
    """How far the ingest in a workspace is."""
    files = sum(1 for path in workspace.glob(".scratch/*/*") if not path.name.endswith(".part"))
    try:
        with closing(sqlite3.connect(f"file:{workspace / 'kglink.db'}?mode=ro", uri=True)) as store:
            row = store.execute("select complete, read from ingests").fetchone()
    except sqlite3.OperationalError:  # not made yet
        row = None
    complete, records = row or (0, 0)
    return Reached(complete, records, files)


def make(workspace: Path) -> None:
    """Make a workspace."""
    subprocess.run([str(KGLINK), "init", str(workspace)], check=True, capture_output=True)


def calm_run(workspace: Path, dump: Path, documents: int) -> list[tuple[float, Reached]]:
    """Ingest undisturbed; what was reached when, and at last the end."""
    make(workspace)
    began = time.monotonic()
    child = start(workspace, dump, documents)
    seen = [(0.0, Reached())]
    while child.poll() is None:
        if (now := look(workspace)) > seen[-1][1]:
            seen.append((time.monotonic() - began, now))
        time.sleep(LOOK_EVERY)
    finish(child)
    return [*seen, (time.monotonic() - began, seen[-1][1])]


def moment_at(seconds: float, seen: list[tuple[float, Reached]]) -> Moment:
    """The moment of a calm run so many seconds after its start."""
    when, reached = max((one for one in seen if one[0] <= seconds), key=lambda one: one[0])
    return Moment(reached, seconds - when)


def killed_at(moment: Moment, workspace: Path, dump: Path, documents: int) -> bool:
    """Start an ingest and kill it at a moment; False if it ended before by itself."""
    child = start(workspace, dump, documents)
    due = None
    while child.poll() is None:
        now = time.monotonic()
        if due is None and look(workspace) >= moment.reached:
            due = now + moment.later
        if due is not None and now >= due:
            child.kill()
            if child.wait() < 0:
                return True
        time.sleep(LOOK_EVERY)
    finish(child)
    return False


def finish(child: subprocess.Popen[bytes]) -> None:
    """Wait for the end of an ingest, which must be a good one."""
    _, told = child.communicate()
    if child.returncode:
        raise SystemExit(f"add-kb ended with {child.returncode}: {told.decode()}")


def check_readable(workspace: Path) -> None:
    """The workspace opens and lists its KBs."""
    command = [str(KGLINK), "--workspace", str(workspace), "kbs", "--json"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert all(kb["name"] == "wiki" for kb in listed)  # noqa: S101 - a script that checks


def digest(workspace: Path) -> tuple[str, dict[str, int]]:
    """A hash of all rows of the store in their order, and how many there are by table."""
    whole, counts = blake2b(digest_size=16), {}
    with closing(sqlite3.connect(workspace / "kglink.db")) as store:
        for table in sorted(_tables(store)):
            columns = [row[1] for row in store.execute(f'pragma table_info("{table}")')]
            names = ", ".join(f'"{name}"' for name in columns if name not in VOLATILE)
            order = ", ".join(map(str, range(1, names.count(",") + 2)))
            rows = store.execute(f'select {names} from "{table}" order by {order}')  # noqa: S608 - the store's own names
            counts[table] = 0
            for row in rows:
                counts[table] += 1
                whole.update(repr((table, row)).encode())
    return whole.hexdigest(), {table: count for table, count in counts.items() if count}


def _tables(store: sqlite3.Connection) -> Iterator[str]:
    query = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
    return (name for (name,) in store.execute(query))


def series(folder: Path, dump: Path, documents: int, kills: int, chance: random.Random) -> bool:
    """Kill ingests of a dump so many times; whether all ended as the undisturbed one."""
    seen = calm_run(folder / "calm", dump, documents)
    expected, counts = digest(folder / "calm")
    print(f"{dump.name}: undisturbed {seen[-1][0]:.1f} s, rows {counts}", flush=True)
    hits, equal, number = Counter[str](), True, 0
    while hits.total() < kills:
        number += 1
        workspace = folder / f"killed{number}"
        make(workspace)
        left = kills - hits.total()
        for seconds in sorted(chance.uniform(0, seen[-1][0]) for _ in range(left)):
            moment = moment_at(seconds, seen)
            if not killed_at(moment, workspace, dump, documents):
                break
            hits[moment.reached.stage] += 1
            print(f"  killed at {seconds:6.1f} s of the calm run: {moment.reached}", flush=True)
            check_readable(workspace)
        finish(start(workspace, dump, documents))
        same = digest(workspace)[0] == expected and not (workspace / ".scratch").exists()
        equal = equal and same
        print(f"  ingest {number} ended {'as undisturbed' if same else 'OTHERWISE'}", flush=True)
    print(f"  {hits.total()} kills: {dict(hits)}", flush=True)
    return equal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--dump", type=Path, action="append", default=[], help="a dump as it is")
    parser.add_argument("--pages", type=int, nargs="*", default=[PAGES], help="synthetic dumps")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    chance = random.Random(options.seed)  # noqa: S311 - no secret
    print("seed", options.seed, flush=True)
    equal = True
    with tempfile.TemporaryDirectory() as folder:
        dumps = [(path.resolve(), 50) for path in options.dump]
        for pages in options.pages:
            path = Path(folder) / f"world{pages}.xml.bz2"
            with bz2.open(path, "wt", encoding="utf-8") as out:
                write_mediawiki_xml(out, World(WorldSettings(entities=pages)))
            dumps.append((path, pages // 10))
        for number, (dump, documents) in enumerate(dumps):
            place = Path(folder) / str(number)
            equal = series(place, dump, documents, options.kills, chance) and equal
    sys.exit(0 if equal else "an ingest that was killed did not end as the undisturbed one")


if __name__ == "__main__":
    main()
