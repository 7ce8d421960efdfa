"""Rate of the Wikidata adapter, with and without filters, against json.loads of the same lines.

Run: python benchmarks/wikidata.py [items]

The dump is made up in the shape of the real one: labels and descriptions in 60 languages, claims
with references, sitelinks; 14 KB a line. One item in 50 is of the class that is asked for. The
floor skips no line: it is what any reader pays that parses a line to see whether it wants it. The
figures are medians of three runs in one process, floor and adapter in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kglink.sources import Problems, Source
from kglink_kbs.wikidata import WikidataAdapter, WikidataSettings

RUNS = 3
LANGUAGES = (
    "en",
    "de",
    "fr",
    *(f"x{first}{second}" for first in "abcdef" for second in "abcdefghi"),
)
WIKIS = tuple(f"{language}wiki" for language in LANGUAGES)
CASES: dict[str, dict[str, object]] = {
    "no filter": {},
    "one class in 50": {"types": "Q12136"},
    "20 pages and more": {"min_sitelinks": 20},
    "both": {"types": "Q12136", "min_sitelinks": 20},
}


def statement(number: str, value: object, i: int) -> dict[str, Any]:
    """A statement with a reference, as most of the real ones have."""
    kind = "wikibase-entityid" if isinstance(value, dict) else "string"
    snak = {
        "snaktype": "value",
        "property": number,
        "hash": f"{i:040x}",
        "datavalue": {"value": value, "type": kind},
        "datatype": "wikibase-item" if kind != "string" else "external-id",
    }
    reference = {"hash": f"{i:040x}", "snaks": {"P248": [snak]}, "snaks-order": ["P248"]}
    return {
        "mainsnak": snak,
        "type": "statement",
        "id": f"Q{i}$5627445f-43cb-ed6d-3adb-760e85bd17ee",
        "rank": "normal",
        "references": [reference],
    }


def reference_to(number: int) -> dict[str, Any]:
    """The value of a statement whose object is an item."""
    return {"entity-type": "item", "numeric-id": number, "id": f"Q{number}"}


def made_item(i: int) -> dict[str, Any]:
    """One item."""
    pages = WIKIS[: i * 7 % 60]
    kind = 12136 if i % 50 == 0 else 5
    claims = {"P31": [statement("P31", reference_to(kind), i)]}
    claims |= {
        f"P{number}": [statement(f"P{number}", reference_to(i + number), i)]
        for number in range(100, 107)
    }
    claims |= {"P486": [statement("P486", f"D{i:06}", i)]}
    return {
        "type": "item",
        "id": f"Q{i + 1}",
        "labels": {
            language: {"language": language, "value": f"Läntern {i}"} for language in LANGUAGES
        },
        "descriptions": {
            language: {"language": language, "value": f"lantern number {i} of the town"}
            for language in LANGUAGES
        },
        "aliases": {"en": [{"language": "en", "value": f"lamp {i}"}]},
        "claims": claims,
        "sitelinks": {
            page: {"site": page, "title": f"Läntern {i}", "badges": []} for page in pages
        },
        "lastrevid": i,
    }


def write_items(path: Path, count: int) -> None:
    """Write a dump of ``count`` items."""
    with path.open("w", encoding="utf-8") as out:
        out.write("[\n")
        for i in range(count):
            line = json.dumps(made_item(i), separators=(",", ":"))
            out.write(line + (",\n" if i + 1 < count else "\n"))
        out.write("]\n")


def read_all(path: Path, settings: dict[str, object]) -> int:
    """How many entities the adapter makes of the dump."""
    adapter = WikidataAdapter(WikidataSettings.model_validate(settings))
    with Source.open_path(path) as source:
        return sum(1 for _ in adapter.read(source, Problems()))


def load_all(path: Path) -> int:
    """How many lines json.loads parses."""
    count = 0
    with path.open("rb") as lines:
        for line in lines:
            if line[:1] == b"{":
                json.loads(line.rstrip(b",\n"))
                count += 1
    return count


def timed(run: Callable[[], int]) -> tuple[int, float]:
    """What ``run`` counts, and its seconds."""
    started = time.perf_counter()
    count = run()
    return count, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("items", type=int, nargs="?", default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump.json"
        write_items(path, options.items)
        size = path.stat().st_size / 2**20
        print(f"{options.items:,} lines, {size:,.0f} MiB")
        print("filter              entities      lines/s   MiB/s  floor MiB/s  ratio")
        for name, settings in CASES.items():
            runs, floors = [], []
            for _ in range(RUNS):
                count, seconds = timed(partial(read_all, path, settings))
                runs.append(seconds)
                floors.append(timed(partial(load_all, path))[1])
            seconds, floor = statistics.median(runs), statistics.median(floors)
            print(
                f"{name:<18} {count:>9,} {options.items / seconds:>12,.0f} {size / seconds:>7.0f} "
                f"{size / floor:>12.0f} {seconds / floor:>6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
