"""A part of the disease data in the same layout, so that a table is made in less than an hour.

    python benchmarks/disease_cut.py ../shared/data/disease FOLDER
        [--entities 0.2] [--train 0.1] [--dev 0.5]

Of DOID and HP all entities that a mention of the five corpora means stay, and of the others every
so many; of the corpora every so many abstracts. `kglink reproduce joint/table-3-disease` reads the
folder like the whole. A pool of fewer entities is easier: figures compare rows, not papers.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

CORPORA = ("ncbi_train", "bc5cdr_train", "st21pv_train", "ncbi_dev", "bc5cdr_dev")


def main() -> None:
    """Write the folder, and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("disease", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--entities", type=float, default=0.2)
    parser.add_argument("--train", type=float, default=0.1)
    parser.add_argument("--dev", type=float, default=0.5)
    asked = parser.parse_args()
    golds: set[str] = set()
    for corpus in CORPORA:
        name = f"mentions/{corpus}.jsonl.gz"
        records = [json.loads(line) for line in read(asked.disease / name).splitlines()]
        golds.update(key for one in records for keys in one["gold"].values() for key in keys)
        share = asked.train if corpus.endswith("_train") else asked.dev
        abstracts = spread({one["doc"]: None for one in records}, share)
        kept = [one for one in records if one["doc"] in abstracts]
        write(asked.folder / name, "".join(f"{json.dumps(one)}\n" for one in kept))
        print(f"{corpus}\t{len(abstracts):,} abstracts\t{len(kept):,} mentions")
    cut_doid(asked.disease, asked.folder, golds, asked.entities)
    cut_hp(asked.disease, asked.folder, golds, asked.entities)


def cut_doid(whole: Path, folder: Path, golds: set[str], share: float) -> None:
    """OBO Graphs: nodes, and edges between those that stay."""
    name = "kb/doid.obographs.json.gz"
    told = json.loads(read(whole / name))
    nodes = 0
    for graph in told["graphs"]:
        kept = chosen(map(key_of, graph["nodes"]), golds, share)
        graph["nodes"] = [one for one in graph["nodes"] if key_of(one) in kept]
        there = {one["id"] for one in graph["nodes"]}
        graph["edges"] = [
            one for one in graph.get("edges", ()) if {one["sub"], one["obj"]} <= there
        ]
        nodes += len(there)
    print(f"doid\t{nodes:,} nodes")
    write(folder / name, json.dumps(told))


def cut_hp(whole: Path, folder: Path, golds: set[str], share: float) -> None:
    """OBO: stanzas, without the parents that are gone."""
    name = "kb/hp.obo.gz"
    head, *stanzas = read(whole / name).split("\n[Term]\n")
    keys = [one.split("\n", 1)[0].removeprefix("id: ") for one in stanzas]
    kept = chosen(keys, golds, share)
    terms = [
        "".join(f"{line}\n" for line in one.splitlines() if stays(line, kept))
        for key, one in zip(keys, stanzas, strict=True)
        if key in kept
    ]
    write(folder / name, "\n[Term]\n".join([head, *terms]))
    print(f"hp\t{len(terms):,} terms")


def stays(line: str, kept: set[str]) -> bool:
    """Whether a line of a stanza names nothing that is gone."""
    return not line.startswith("is_a: ") or line.split()[1] in kept


def key_of(node: dict[str, Any]) -> str:
    """``DOID:1`` of ``http://purl.obolibrary.org/obo/DOID_1``."""
    return str(node["id"]).rpartition("/")[2].replace("_", ":")


def chosen(keys: Iterable[str], golds: set[str], share: float) -> set[str]:
    """The golds, and of the other keys a share."""
    names = dict.fromkeys(keys)
    return (golds & names.keys()) | set(spread([one for one in names if one not in golds], share))


def spread(names: Iterable[str], share: float) -> set[str]:
    """A share of the names, evenly by their order."""

    def some() -> Iterator[str]:
        owed = 0.0
        for name in names:
            owed += share
            if owed >= 1:
                owed -= 1
                yield name

    return set(some())


def read(path: Path) -> str:
    """The text of a packed file."""
    return gzip.decompress(path.read_bytes()).decode()


def write(path: Path, text: str) -> None:
    """The same, the other way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
