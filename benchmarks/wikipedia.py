"""Parse rate of ``kglink/wikipedia`` against its floor, and its peak memory.

Run: python benchmarks/wikipedia.py [pages ...] [--dump FILE ...] [--large]

The floor is what nobody can go below in one process: bzip2 decompression plus an expat pass with
handlers that keep nothing, over the same bytes, one after the other. The adapter reads a dump into
records, which are counted and dropped, in as many processes as there are processors; once without
and once with annotated documents (one for every fifth page). Floor and adapter take turns, each
run a process of its own, and the figure is the median of three (``--runs``). Ratios are given of
the time by the clock and of the processors' time, which other work on the machine changes less.
Peak memory is that of the largest process. The synthetic dumps have short pages (2 KB; Wikipedia's
have 5 KB on average); ``--dump`` measures a real one, and the English sample is repeated with other
titles to 60 MB.
"""

from __future__ import annotations

import argparse
import bz2
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from xml.parsers import expat

from kglink.sources import Problems, Source
from kglink_kbs.mediawiki.settings import MediaWikiSettings
from kglink_kbs.mediawiki.wikis import make

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from worlds import World, WorldSettings, write_mediawiki_xml

RUNS = 3
SIZES = (10_000, 100_000)
LARGE = 1_000_000
READ = 2**20
COLUMNS = (
    ("pages", 9),
    ("MB", 7),
    ("floor s", 8),
    ("x clock", 8),
    ("x cpu", 6),
    ("+docs: x clock", 15),
    ("x cpu", 6),
    ("pages/s", 8),
    ("MB/s", 6),
    ("peak MiB", 9),
)


def run_floor(path: Path, documents: int) -> dict[str, float]:
    """Decompress and parse, and nothing else."""
    del documents
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: None
    parser.EndElementHandler = lambda name: None
    parser.CharacterDataHandler = lambda text: None
    size = 0
    started = time.perf_counter()
    with bz2.open(path) as stream:
        while data := stream.read(READ):
            size += len(data)
            parser.Parse(data, False)
    parser.Parse(b"", True)
    return {"seconds": time.perf_counter() - started, "cpu": cpu_seconds(), "bytes": size}


def run_adapter(path: Path, documents: int) -> dict[str, float]:
    """Read the dump into records."""
    started = time.perf_counter()
    with Source.open_path(path) as source:
        adapter = make(MediaWikiSettings(documents=documents))
        records = sum(1 for _ in adapter.read(source, Problems("skip")))
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "cpu": cpu_seconds(), "records": records, "peak": peak_mib()}


def cpu_seconds() -> float:
    """The processors' time for this process and those that it has started."""
    used = [resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def peak_mib() -> float:
    """The largest resident size of this process and of those that it has started."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1024


KINDS = {"floor": run_floor, "adapter": run_adapter}


def child(kind: str, path: Path, documents: int = 0) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--kind", kind, "--path", str(path), str(documents)]
    answer: dict[str, float] = json.loads(
        subprocess.run(command, check=True, capture_output=True).stdout
    )
    return answer


def measure(path: Path, pages: int, count: int = RUNS) -> None:
    """Print the figures of one dump."""
    runs: dict[str, list[dict[str, float]]] = {"floor": [], "off": [], "on": []}
    for _ in range(count):
        runs["floor"].append(child("floor", path))
        runs["off"].append(child("adapter", path))
        runs["on"].append(child("adapter", path, max(1, pages // 5)))

    def median(kind: str, what: str) -> float:
        return statistics.median(run[what] for run in runs[kind])

    measured = [(kind, what) for kind in ("off", "on") for what in ("seconds", "cpu")]
    ratios = [median(kind, what) / median("floor", what) for kind, what in measured]
    megabytes, seconds = runs["floor"][0]["bytes"] / 1e6, median("off", "seconds")
    peak = max(run["peak"] for kind in ("off", "on") for run in runs[kind])
    values = [
        f"{pages:,}",
        f"{megabytes:,.0f}",
        f"{median('floor', 'seconds'):.1f}",
        *(f"{ratio:.2f}" for ratio in ratios),
        f"{pages / seconds:,.0f}",
        f"{megabytes / seconds:.1f}",
        f"{peak:,.0f}",
    ]
    print_row(values)


def print_row(values: Iterable[str]) -> None:
    """Print one line of the table."""
    widths = (width for _, width in COLUMNS)
    print(" ".join(f"{value:>{width}}" for value, width in zip(values, widths, strict=True)))
    sys.stdout.flush()


def synthetic(folder: Path, pages: int) -> Path:
    """A dump of a world with so many articles."""
    path = folder / f"world{pages}.xml.bz2"
    with bz2.open(path, "wt", encoding="utf-8") as out:
        write_mediawiki_xml(out, World(WorldSettings(entities=pages)))
    return path


def repeated(folder: Path, dump: Path, least: int = 60_000_000) -> tuple[Path, int]:
    """A dump of at least so many bytes with the pages of another under many titles."""
    data = bz2.decompress(dump.read_bytes())
    start, end = data.index(b"<page>"), data.rindex(b"</page>") + len(b"</page>")
    copies = -(-least // len(data))
    path = folder / "repeated.xml.bz2"
    with bz2.open(path, "wb") as out:
        out.write(data[:start])
        for number in range(copies):
            mark = b" (%d)</title>" % number if number else b"</title>"
            pages = data[start:end].replace(b"</title>", mark)
            out.write(pages.replace(b"    <id>", b"    <id>%d" % (number + 1)) + b"\n")
        out.write(b"</mediawiki>\n")
    return path, copies * data.count(b"<page>")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--dump", type=Path, action="append", default=[], help="a .bz2 to repeat")
    parser.add_argument("--large", action="store_true", help=f"{LARGE:,} pages as well")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kind:
        print(json.dumps(KINDS[options.kind](options.path, options.sizes[0])))
        return
    print_row(name for name, _ in COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        for dump in options.dump:
            measure(*repeated(Path(folder), dump), options.runs)
        for pages in (*options.sizes, *([LARGE] if options.large else [])):
            measure(synthetic(Path(folder), pages), pages, options.runs)


if __name__ == "__main__":
    main()
