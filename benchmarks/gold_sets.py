"""How far `--resolve xref` rebuilds the curated gold sets of the disease corpora.

    python benchmarks/gold_sets.py DATA [--examples N]

DATA is the folder with ``kb``, ``corpora``, ``mentions`` and ``overlap``. The gold sets were
derived from mappings that curators made as well; the ontologies' own cross-references hold only a
part of those. Each corpus is resolved in three ways: against every KB alone, against all three at
once (so that an entity of one leads to those of the others), and with the pairs of
``overlap/gold_pairs.tsv`` beside, as an SSSOM file. A cell of the table counts mentions.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from kglink.records import Document
from kglink.workspace import Workspace

KBS = {
    "doid": "doid.obographs.json.gz",
    "hp": "hp.obo.gz",
    "ncit": "ncit.obographs.json.gz",
}
CORPORA = {
    "ncbi_train": ("ncbi_train", ""),
    "ncbi_dev": ("ncbi_devel", ""),
    "bc5cdr_train": ("bc5cdr_training", "Disease"),
    "bc5cdr_dev": ("bc5cdr_development", "Disease"),
}
KINDS = ("equal", "both none", "fewer", "more", "other", "lost", "found")

Golds = dict[str, frozenset[str]]
Place = tuple[str, int, int]


def main() -> None:
    """Print one line for each corpus, way and KB."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--examples", type=int, default=0, help="differences to show of each kind")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        flags = {"ingest.on_error": "skip"}
        with Workspace.open(Path(folder) / "workspace", create=True, flags=flags) as workspace:
            measure(workspace, arguments.data, arguments.examples)


def measure(workspace: Workspace, data: Path, examples: int) -> None:
    """Resolve every corpus in all three ways."""
    for kb, file in KBS.items():
        workspace.add_kb(kb, data / "kb" / file)
    print(f"{'corpus':14}{'way':12}{'KB':7}{'agree':>8}", *(f"{kind:>9}" for kind in KINDS))
    for way in ("alone", "together", "with SSSOM"):
        if way == "with SSSOM":
            workspace.add_kb("pairs", write_sssom(data, workspace.folder / "pairs.sssom.tsv"))
        for corpus in CORPORA:
            began = time.perf_counter()
            found = resolved(workspace, data, corpus, alone=way == "alone")
            seconds = time.perf_counter() - began
            report(corpus, way, found, reference(data, corpus, workspace), examples)
            print(f"{corpus:14}{way:12}{seconds:.1f} s")


def resolved(workspace: Workspace, data: Path, corpus: str, *, alone: bool) -> dict[Place, Golds]:
    """The golds that kglink finds, by place and KB."""
    file, types = CORPORA[corpus]
    found: dict[Place, Golds] = defaultdict(dict)
    for linked in [[kb] for kb in KBS] if alone else [list(KBS)]:
        workspace.add_kb(
            corpus,
            data / "corpora" / f"{file}.PubTator.txt.gz",
            options={"types": types},
            links_to=linked,
            resolve="xref",
        )
        for document in workspace.store.documents(corpus):
            for mention in document.mentions:
                golds = found[document.id, mention.start, mention.end]
                for kb in linked:
                    keys = [gold.key for gold in mention.gold or () if gold.kb == kb]
                    golds[kb] = golds.get(kb, frozenset()).union(keys)
    return found


def reference(data: Path, corpus: str, workspace: Workspace) -> Iterator[tuple[Place, str, Golds]]:
    """Place, surface and curated golds of every mention."""
    documents: dict[str, Document] = {row.id: row for row in workspace.store.documents(corpus)}
    with gzip.open(data / "mentions" / f"{corpus}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            shift = documents[row["doc"]].text.find(row["context"])
            place = row["doc"], row["start"] + shift, row["end"] + shift
            yield place, row["mention"], {kb: frozenset(row["gold"].get(kb, [])) for kb in KBS}


def report(
    corpus: str,
    way: str,
    found: dict[Place, Golds],
    wanted: Iterator[tuple[Place, str, Golds]],
    examples: int,
) -> None:
    """One line for each KB and one for all of them at once."""
    counts: dict[str, Counter[str]] = {kb: Counter() for kb in KBS}
    shown: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    total = agreed = left_out = 0
    for place, surface, golds in wanted:
        total += 1
        if place not in found:
            left_out += 1
            continue
        kinds = {kb: kind_of(golds[kb], found[place].get(kb, frozenset())) for kb in KBS}
        agreed += set(kinds.values()) <= {"equal", "both none"}
        for kb, kind in kinds.items():
            counts[kb][kind] += 1
            if kind not in ("equal", "both none"):
                here = sorted(found[place].get(kb, ()))
                shown[kb, kind][f"{surface}: wanted {sorted(golds[kb])}, found {here}"] += 1
    for kb, count in counts.items():
        agree = (count["equal"] + count["both none"]) / total
        cells = (f"{count[kind]:>9,}" for kind in KINDS)
        print(f"{corpus:14}{way:12}{kb:7}{agree:>8.1%}", *cells)
    print(f"{corpus:14}{way:12}{'all':7}{agreed / total:>8.1%}   of {total:,}, {left_out} not read")
    for (kb, kind), texts in shown.items():
        for text, count_ in texts.most_common(examples):
            print(f"    {kb} {kind} {count_}x {text}")


def kind_of(wanted: frozenset[str], found: frozenset[str]) -> str:
    """How two gold sets of one mention and KB differ."""
    if wanted == found:
        return "equal" if wanted else "both none"
    if not found:
        return "lost"
    if not wanted:
        return "found"
    if found < wanted:
        return "fewer"
    return "more" if found > wanted else "other"


def write_sssom(data: Path, target: Path) -> Path:
    """Write the curated pairs as an SSSOM table."""
    with (
        (data / "overlap" / "gold_pairs.tsv").open(encoding="utf-8") as lines,
        target.open("w", encoding="utf-8") as out,
    ):
        out.write("subject_id\tpredicate_id\tobject_id\tmapping_justification\n")
        for row in csv.DictReader(lines, delimiter="\t"):
            ends = f"{row['id_a']}\tskos:exactMatch\t{row['id_b']}"
            out.write(f"{ends}\tsemapv:ManualMappingCuration\n")
    return target


if __name__ == "__main__":
    main()
