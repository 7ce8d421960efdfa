"""Parse rate of the KB adapters against a named floor, and their peak memory.

Run: python benchmarks/adapters.py [--entities N] [adapter ...]

The files are made up, as large as `--entities` says, and lie uncompressed on disk. Each floor reads
the same file in the same run with as little as its format allows, and makes no entity of it:

jsonl      json.loads of every line
csv        csv.reader over every row
obo        the lines split at their first colon
obographs  json.load of the whole file
skos       the lines of N-Triples split at their first two spaces
wikidata   json.loads of every line

Each figure is the median of three runs, adapter and floor in turn; each run is a process of its
own, whose peak memory is given beside that of a process that only imports the adapter.
`benchmarks/wikidata.py` measures Wikidata's filters.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kglink.plugins import load_registry
from kglink.sources import Problems, Source

RUNS = 3
OBO = "http://purl.obolibrary.org/obo/"
SKOS = "http://www.w3.org/2004/02/skos/core#"
TEXT = "A disorder of the lamps that keeps the lantern keepers awake, described in every book. " * 2


class Made(NamedTuple):
    """An entity of the made-up files."""

    number: int
    title: str
    synonyms: tuple[str, str]
    xrefs: tuple[str, str]


def made(count: int) -> Iterator[Made]:
    """Entities as an ontology has them."""
    for i in range(count):
        yield Made(
            i,
            f"lantern disorder of type {i}",
            (f"disorder {i} of lanterns", f"LD{i}"),
            (f"MESH:D{i:06}", f"UMLS:C{i:07}"),
        )


def write_jsonl(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as out:
        for it in made(count):
            fields = {"id": f"X:{it.number}", "title": it.title, "description": TEXT}
            out.write(json.dumps({**fields, "aliases": it.synonyms, "xrefs": it.xrefs}) + "\n")


def write_csv(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["id", "title", "description", "aliases", "xrefs"])
        for it in made(count):
            lists = ("|".join(it.synonyms), "|".join(it.xrefs))
            rows.writerow([f"X:{it.number}", it.title, TEXT, *lists])


def write_obo(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as out:
        out.write("format-version: 1.2\nontology: x\n")
        for it in made(count):
            out.write(f"\n[Term]\nid: X:{it.number}\nname: {it.title}\n")
            out.write(f'def: "{TEXT}" [X:curators]\n')
            out.writelines(f'synonym: "{text}" EXACT []\n' for text in it.synonyms)
            out.writelines(f'xref: {xref} "{it.title}"\n' for xref in it.xrefs)
            out.write(f"is_a: X:{it.number // 2} ! its parent\ncreated_by: somebody\n")


def write_obographs(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as out:
        out.write('{"graphs": [{"id": "' + OBO + 'x.owl", "nodes": [')
        for it in made(count):
            meta = {
                "definition": {"val": TEXT, "xrefs": ["X:curators"]},
                "synonyms": [{"pred": "hasExactSynonym", "val": text} for text in it.synonyms],
                "xrefs": [{"val": xref} for xref in it.xrefs],
            }
            node = {"id": f"{OBO}X_{it.number}", "type": "CLASS", "lbl": it.title, "meta": meta}
            out.write((", " if it.number else "") + json.dumps(node, indent=2))
        out.write('], "edges": [')
        for i in range(count):
            edge = {"sub": f"{OBO}X_{i}", "pred": "is_a", "obj": f"{OBO}X_{i // 2}"}
            out.write((", " if i else "") + json.dumps(edge, indent=2))
        out.write("]}]}")


def write_wikidata(path: Path, count: int) -> None:
    importlib.import_module("wikidata").write_items(path, count)  # the script beside this one


def write_skos(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as out:
        for it in made(count):
            concept = f"<http://x.example/{it.number}> <"
            out.write(f'{concept}{SKOS}prefLabel> "{it.title}"@en .\n')
            out.writelines(f'{concept}{SKOS}altLabel> "{text}"@en .\n' for text in it.synonyms)
            out.write(f'{concept}{SKOS}definition> "{TEXT}"@en .\n')
            out.writelines(f"{concept}{SKOS}exactMatch> <{xref}> .\n" for xref in it.xrefs)
            out.write(f"{concept}{SKOS}broader> <http://x.example/{it.number // 2}> .\n")


def json_lines(path: Path) -> None:
    with path.open("rb") as lines:
        for line in lines:
            if line[:1] == b"{":
                json.loads(line.rstrip(b",\n"))


def csv_rows(path: Path) -> None:
    with path.open(encoding="utf-8", newline="") as lines:
        for _ in csv.reader(lines):
            pass


def split_lines(path: Path) -> None:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            line.partition(": ")


def split_triples(path: Path) -> None:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            line.split(" ", 2)


def whole_json(path: Path) -> None:
    with path.open(encoding="utf-8") as text:
        json.load(text)


class Format(NamedTuple):
    """How a file of a format is made, and the least that reading it takes."""

    write: Callable[[Path, int], None]
    floor: Callable[[Path], None]
    suffix: str
    settings: dict[str, object]


FORMATS = {
    "jsonl": Format(write_jsonl, json_lines, "jsonl", {}),
    "csv": Format(write_csv, csv_rows, "csv", {}),
    "obo": Format(write_obo, split_lines, "obo", {}),
    "obographs": Format(write_obographs, whole_json, "json", {}),
    "skos": Format(write_skos, split_triples, "nt", {"grouped": True}),
    "wikidata": Format(write_wikidata, json_lines, "json", {}),
}


def run_adapter(name: str, path: Path) -> tuple[int, float]:
    """Entities read, and the seconds that it took."""
    plugin = load_registry(only="builtin").get("kb", f"kglink/{name}")
    assert plugin.settings  # noqa: S101 - all adapters have some
    adapter = plugin.factory(plugin.settings.model_validate(FORMATS[name].settings))
    started = time.perf_counter()
    count = 0
    if path.stat().st_size:
        with Source.open_path(path) as source:
            count = sum(1 for _ in adapter.read(source, Problems()))
    return count, time.perf_counter() - started


def run_floor(name: str, path: Path) -> tuple[int, float]:
    """Seconds of the floor."""
    started = time.perf_counter()
    FORMATS[name].floor(path)
    return 0, time.perf_counter() - started


def child(kind: str, name: str, path: Path) -> tuple[int, float, float]:
    """One measurement in a process of its own: entities, seconds, peak MiB."""
    command = [sys.executable, __file__, "--kind", kind, "--path", str(path), name]
    done = subprocess.run(command, check=True, capture_output=True)
    count, seconds, memory = json.loads(done.stdout)
    return count, seconds, memory


def measure(name: str, count: int, folder: Path) -> None:
    """Print the figures of one format."""
    form = FORMATS[name]
    path, empty = folder / f"made.{form.suffix}", folder / "empty"
    form.write(path, count)
    empty.touch()
    adapter, floor = [], []
    for _ in range(RUNS):
        adapter.append(child("adapter", name, path))
        floor.append(child("floor", name, path))
    bare = child("adapter", name, empty)[2]
    seconds = statistics.median(run[1] for run in adapter)
    least = statistics.median(run[1] for run in floor)
    size = path.stat().st_size / 2**20
    memory = max(run[2] for run in adapter)
    print(
        f"{name:<10} {adapter[0][0]:>9,} {size:>7.0f} {adapter[0][0] / seconds:>12,.0f} "
        f"{size / seconds:>7.0f} {size / least:>12.0f} {seconds / least:>6.2f} "
        f"{memory:>9.0f} {bare:>9.0f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("adapters", nargs="*", metavar="adapter", help=", ".join(FORMATS))
    parser.add_argument("--entities", type=int, default=50_000)
    parser.add_argument("--kind", choices=["adapter", "floor"], help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.adapters:
        if name not in FORMATS:
            parser.error(f"{name} is none of {', '.join(FORMATS)}")
    if options.kind:
        run = run_adapter if options.kind == "adapter" else run_floor
        count, seconds = run(options.adapters[0], options.path)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([count, seconds, peak]))
        return
    print(
        "adapter     entities     MiB   entities/s   MiB/s  floor MiB/s  ratio  peak MiB  bare MiB"
    )
    for name in options.adapters or FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            measure(name, options.entities, Path(folder))


if __name__ == "__main__":
    main()
