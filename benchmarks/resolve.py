"""Names without text resolved: rows a second, R@1, false merges per 1,000; rapidfuzz beside it.

    python benchmarks/resolve.py ../shared/data [--rows 100000] [--sample 500] [--what column]
        [--csv-reconcile PYTHON]

``column``: names of DOID and HP, half of them as they are, three in ten with a typo, and two in ten
of NCIT that neither has, a third of these with a typo; by names alone. rapidfuzz compares a sample
of the distinct names with all names by hand, and so does csv-reconcile on 100 of them, where
PYTHON is one that has it (it wants libraries of its own). ``mentions``: distinct mentions of NCBI
Disease and BC5CDR (dev), and of seven general sets, against the thresholds; ``vectors``: the first
against 800 entities of DOID, by all evidence. Mentions without an answer whose name an entity bears
are left out: nobody said that it is not meant. A false merge is a match with a wrong entity.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rapidfuzz import fuzz, process, utils

from kglink import Workspace
from kglink.text.fold import fold
from kglink.workspace.resolve import Resolved, Row, resolved_rows

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from disease_kbs import disease_entities

#: Names may have so many characters.
LONGEST = 32_768
THRESHOLDS = (0.1, 0.25, 0.5, 0.85, 0.9, 0.93)
GENERAL = (
    *("oke-2015-train", "oke-2016-train", "msnbc-updated", "wned-wiki", "rss-500", "tweeki"),
    "wiki-fair-v2-no-coref",
)


class Asked(NamedTuple):
    """A name, and the keys that are right for it; none: it is new."""

    name: str
    right: frozenset[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--csv-reconcile", default="", metavar="PYTHON")
    parser.add_argument("--what", choices=("column", "mentions", "vectors"), default="column")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.what == "column":
            measure_column(
                Path(folder),
                options.data / "disease",
                options.rows,
                options.sample,
                options.csv_reconcile,
            )
        elif options.what == "mentions":
            measure_mentions(Path(folder), options.data)
        else:
            measure_with_vectors(Path(folder), options.data / "disease")


# ------------------------------------------------------------------------------------ a column
def measure_column(folder: Path, disease: Path, rows: int, sample: int, other: str) -> None:
    """How fast and how right kglink and rapidfuzz are on the same column."""
    owners: dict[str, set[str]] = {}
    for kb in ("doid", "hp"):
        for entity in disease_entities(kb, disease):
            for name in (entity["title"], *entity["aliases"]):
                owners.setdefault(name, set()).add(entity["id"])
    column = synthetic_column(owners, disease, rows)
    with Workspace.open(folder / "w", create=True) as workspace:
        workspace.add_kb("doid", disease / "kb" / "doid.obographs.json.gz")
        workspace.add_kb("hp", disease / "kb" / "hp.obo.gz")
        workspace.build_if_stale(wait=False)
        linker = workspace.linker()
        list(resolved_rows(linker, [Row("warm")], LONGEST))
        began, clock = time.monotonic(), time.process_time()
        answers = list(resolved_rows(linker, (Row(one.name) for one in column), LONGEST))
        seconds, clock = time.monotonic() - began, time.process_time() - clock
    asked = list(dict.fromkeys(column))
    print(f"{len(column):,} rows, {len(asked):,} different, {len(owners):,} names in the KBs")
    print(f"kglink: {rows / seconds:,.0f} rows a second, {rows / clock:,.0f} of one core")
    report(column, answers)
    exact = [one for one in asked if one.name in owners]
    began = time.process_time()
    list(resolved_rows(linker, (Row(one.name) for one in exact), LONGEST))
    print(f"exact names alone: {len(exact) / (time.process_time() - began):,.0f} of one core")

    some = random.Random(2).sample(asked, sample)  # noqa: S311 - a sample
    names = list(owners)
    processed = [utils.default_process(name) for name in names]
    queries = [utils.default_process(one.name) for one in some]
    share = len(column) / len(asked)
    scorers: list[tuple[str, Callable[[], list[tuple[int, float]]]]] = [
        ("extractOne, WRatio", lambda: best_of(queries[:100], processed)),
        ("cdist, ratio", lambda: best_by_cdist(queries, processed)),
    ]
    for label, search in scorers:
        began = time.process_time()
        found = search()
        seconds = time.process_time() - began
        compare(f"rapidfuzz, {label}", some[: len(found)], found, seconds / share, owners)
    if other:
        asked = some[:100]
        told, seconds = best_of_csv_reconcile(other, folder, [one.name for one in asked], names)
        compare("csv-reconcile", asked, told, seconds / share, owners)


def compare(
    label: str,
    asked: Sequence[Asked],
    found: Sequence[tuple[int, float]],
    seconds: float,
    owners: dict[str, set[str]],
) -> None:
    """How fast and how right the best names of another tool are, from some scores on."""
    names = list(owners)
    print(f"{label}: {len(asked) / seconds:,.0f} rows a second of one core")
    right = [
        at >= 0 and bool(one.right & owners[names[at]])
        for one, (at, _) in zip(asked, found, strict=True)
    ]
    known = sum(bool(one.right) for one in asked)
    print(f"  R@1 {sum(right) / known:.3f}")
    for cutoff in (80, 85, 90, 95, 100):
        taken = [
            is_right for is_right, (_, score) in zip(right, found, strict=True) if score >= cutoff
        ]
        tell(f"score {cutoff}", len(asked), len(taken), sum(taken), known)


#: Asks csv-reconcile as its own command does: a table of names, and queries in batches of ten, as
#: OpenRefine sends them.
_CSV_RECONCILE = """
import json, sqlite3, sys, time
import csv_reconcile_dice
from csv_reconcile import initdb, score
table, queries = sys.argv[1], json.load(sys.stdin)
db = sqlite3.connect(":memory:")
db.row_factory = sqlite3.Row
initdb.init_db(db, table, "id", "name", "utf-8", {}, {"delimiter": "\\t"})
began, found = time.process_time(), []
for first in range(0, len(queries), 10):
    asked = dict(enumerate({"query": one} for one in queries[first : first + 10]))
    for told in score.processQueryBatch(db, asked, limit=1).values():
        best = told["result"]
        found.append([int(best[0]["id"]), best[0]["score"]] if best else [-1, 0])
print(json.dumps([found, time.process_time() - began]))
"""


def best_of_csv_reconcile(
    python: str, folder: Path, queries: Sequence[str], names: Sequence[str]
) -> tuple[list[tuple[int, float]], float]:
    """The best name of each query by csv-reconcile's own scores, and its processor time."""
    table = folder / "names.tsv"
    rows = (f"{at}\t{' '.join(name.split())}\n" for at, name in enumerate(names))
    table.write_text("id\tname\n" + "".join(rows), encoding="utf-8")
    ran = subprocess.run(
        [python, "-c", _CSV_RECONCILE, str(table)],
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        check=True,
    )
    found, seconds = json.loads(ran.stdout)
    return [(int(at), float(score)) for at, score in found], float(seconds)


def synthetic_column(owners: dict[str, set[str]], disease: Path, rows: int) -> list[Asked]:
    """Names as they are, with typos, and new ones."""
    draw = random.Random(1)  # noqa: S311 - a benchmark
    paired = {one for line in lines_of(disease / "overlap/gold_pairs.tsv") for one in line.split()}
    paired.update(line.strip() for line in lines_of(disease / "overlap/unjudged.txt"))
    folded = {fold(name) for name in owners}
    new = [
        entity["title"]
        for entity in disease_entities("ncit", disease)
        if entity["id"] not in paired and fold(entity["title"]) not in folded
    ]
    known = list(owners)
    column = []
    for _ in range(rows):
        part = draw.random()
        if part < 0.2:
            name, right = draw.choice(new), frozenset[str]()
            name = with_typo(name, draw) if part < 0.2 / 3 else name
        else:
            own = draw.choice(known)
            name = with_typo(own, draw) if part < 0.5 else own
            right = frozenset(owners[own])
        column.append(Asked(name, right))
    return column


def with_typo(name: str, draw: random.Random) -> str:
    """A letter left out, doubled, replaced, or swapped with the next."""
    at = draw.randrange(len(name))
    letter, rest = name[at], name[at + 1 :]
    other = draw.choice("abcdefghijklmnopqrstuvwxyz")
    changes = (rest, letter + name[at:], other + rest, rest[:1] + letter + rest[1:])
    return (name[:at] + draw.choice(changes)).strip() or name


def best_of(queries: Sequence[str], names: Sequence[str]) -> list[tuple[int, float]]:
    found = (process.extractOne(query, names, processor=None) for query in queries)
    return [(int(one[2]), float(one[1])) for one in found]


def best_by_cdist(queries: Sequence[str], names: Sequence[str]) -> list[tuple[int, float]]:
    found = []
    for start in range(0, len(queries), 256):
        scores = process.cdist(queries[start : start + 256], names, scorer=fuzz.ratio, workers=1)
        best = np.argmax(scores, axis=1)
        found += [(int(at), float(row[at])) for at, row in zip(best, scores, strict=True)]
    return found


# ------------------------------------------------------------------------------------ mentions
def measure_mentions(folder: Path, data: Path) -> None:
    """The thresholds on mentions without their texts."""
    disease = data / "disease"
    with Workspace.open(folder / "w", create=True) as workspace:
        workspace.add_kb("doid", disease / "kb" / "doid.obographs.json.gz")
        workspace.add_kb("hp", disease / "kb" / "hp.obo.gz")
        workspace.add_kb("general", data / "general" / "general.jsonl.gz")
        workspace.build_if_stale(wait=False)
        told: list[tuple[Asked, Resolved | None]] = []
        for kb in ("doid", "hp"):
            told += answered(workspace, kb, disease_mentions(disease, kb))
        print("disease names (NCBI Disease, BC5CDR, dev), DOID and HP each alone, names alone")
        report(*zip(*told, strict=True))
        print("names of everyday things (seven sets), names alone")
        report(
            *zip(*answered(workspace, "general", general_mentions(data / "general")), strict=True)
        )


def measure_with_vectors(folder: Path, disease: Path) -> None:
    """The thresholds where names have vectors: of a part of DOID, made in minutes."""
    draw = random.Random(1)  # noqa: S311 - a benchmark
    mentions = disease_mentions(disease, "doid")
    meant = set().union(*mentions.values())
    entities = list(disease_entities("doid", disease))
    kept = draw.sample([one for one in entities if one["id"] in meant], 400)
    kept += draw.sample([one for one in entities if one["id"] not in meant], 400)
    file = folder / "part.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in kept), encoding="utf-8")
    there = {one["id"] for one in kept}
    with Workspace.open(folder / "w", create=True) as workspace:
        workspace.add_kb("doid", file)
        workspace.build()
        own = {name: right & there for name, right in mentions.items()}
        print("disease names, 800 entities of DOID, names and vectors")
        report(*zip(*answered(workspace, "doid", own), strict=True))


def answered(
    workspace: Workspace, kb: str, mentions: dict[str, set[str]]
) -> list[tuple[Asked, Resolved | None]]:
    """The judged names with their answers in one KB."""
    names = workspace.space().segments[kb].names
    asked = [
        Asked(name, frozenset(right))
        for name, right in mentions.items()
        if right or not len(names.exact(fold(name)))
    ]
    rows = (Row(one.name) for one in asked)
    return list(zip(asked, resolved_rows(workspace.linker([kb]), rows, LONGEST), strict=True))


def disease_mentions(disease: Path, kb: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for corpus in ("ncbi_dev", "bc5cdr_dev"):
        for line in lines_of(disease / "mentions" / f"{corpus}.jsonl.gz"):
            record = json.loads(line)
            found.setdefault(record["mention"], set()).update(record["gold"].get(kb, ()))
    return found


def general_mentions(general: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in GENERAL:
        for line in lines_of(general / "documents" / f"{name}.jsonl.gz"):
            document = json.loads(line)
            for one in document["entities"]:
                if "gold" in one:
                    surface = document["text"][one["start"] : one["end"]]
                    keys = {gold.removeprefix("general:") for gold in one["gold"]}
                    found.setdefault(surface, set()).update(keys)
    return found


def lines_of(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        yield from lines


# ------------------------------------------------------------------------------------- figures
def report(asked: Sequence[Asked], answers: Sequence[Resolved | None]) -> None:
    """R@1, what each status holds, calibration, and the thresholds."""
    told = [(one, found) for one, found in zip(asked, answers, strict=True) if found]
    right = [
        bool(found.candidates) and found.candidates[0].id.key in one.right for one, found in told
    ]
    known = sum(bool(one.right) for one, _ in told)
    print(f"  {len(told):,} names, {known:,} with an answer, R@1 {sum(right) / known:.3f}")
    for status in ("match", "ambiguous", "new"):
        own = [(one, found) for one, found in told if found.status == status]
        among = sum(any(c.id.key in one.right for c in found.candidates) for one, found in own)
        none = sum(not one.right for one, _ in own)
        print(
            f"  {status}: {len(own):,}, right among the candidates {among:,}, really new {none:,}"
        )
    print(f"  calibration error {calibration_error([f.probability for _, f in told], right):.3f}")
    for threshold in THRESHOLDS:
        taken = [
            is_right
            for is_right, (_, found) in zip(right, told, strict=True)
            if found.probability >= threshold and not is_torn(found)
        ]
        tell(f"threshold {threshold:g}", len(told), len(taken), sum(taken), known)


def is_torn(found: Resolved) -> bool:
    """Whether several things bear the name: no threshold makes a match of it."""
    first, *others = found.candidates or (None,)
    if first is None or not first.evidence.get("exact"):
        return False
    return any(one.evidence.get("exact") and one.id not in first.also for one in others if one)


def tell(label: str, rows: int, taken: int, right: int, known: int) -> None:
    wrong = 1000 * (taken - right) / rows
    print(
        f"  {label}: {wrong:.1f} false merges per 1,000, {right / known:.3f} of the answers found"
    )


def calibration_error(probabilities: Sequence[float], right: Sequence[bool]) -> float:
    """The mean distance of probability and truth over ten steps."""
    steps: dict[int, float] = {}
    for probability, is_right in zip(probabilities, right, strict=True):
        step = min(9, int(10 * probability))
        steps[step] = steps.get(step, 0.0) + probability - is_right
    return sum(map(abs, steps.values())) / len(probabilities)


if __name__ == "__main__":
    main()
