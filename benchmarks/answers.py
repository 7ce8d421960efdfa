"""A fingerprint of what users get, so that a change of the inside can be shown to change no answer.

    python benchmarks/answers.py WORKSPACE-DIR [--data DATA] [--save FILE] [--compare FILE]

Workspaces are made in WORKSPACE-DIR where they are missing, and used again; an interrupted run goes
on. DATA is the folder with ``disease``, ``general`` and ``fandom``. The texts of each part are
linked twice, as raw text and with the annotated places given. An answer is a JSON line for a text:
its spans, what each means, how sure that is to six digits, and the candidates in their order.
Printed is a SHA-256 of each part. ``--compare`` counts the answers that differ from those of a file
that ``--save`` wrote, shows the first of them, and exits with 1 where there is one. Vectors differ
in their last digits from processor to processor: compare runs of one machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from general_sets import (
    BY_NAMES,
    DATA,
    SETS,
    SIZES,
    general_workspace,
    held,
    sample,
    wiki_workspace,
)

from kglink.records import Document, Link, Span, TextInput
from kglink.workspace import Workspace

DEMO = Path(__file__).resolve().parent.parent / "cli" / "kglink_cli" / "demo_data"
#: The same sums on two cores and on many.
FLAGS: Mapping[str, Any] = {"encoder.threads": 2, "ingest.on_error": "skip"}
#: Texts of each set: those of ``wned-wiki`` and ``msnbc-updated`` are long.
TEXTS = {"wned-wiki": 30, "msnbc-updated": 20}
OTHER_TEXTS = 60
ABSTRACTS = 60
PAGES = 50
CORPORA = {
    "ncbi_train": ("ncbi_train", ""),
    "ncbi_dev": ("ncbi_devel", ""),
    "bc5cdr_dev": ("bc5cdr_development", "Disease"),
}


class Part(NamedTuple):
    """Texts that are linked in one workspace."""

    name: str
    folder: Path
    docs: Mapping[str, int]
    """The sources of the texts, and how many are taken of each."""
    flags: Mapping[str, Any] = FLAGS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    for part in parts(given.folder, given.data):
        began = time.monotonic()
        own = list(answers(part))
        digest = hashlib.sha256("\n".join(own).encode()).hexdigest()
        seconds = time.monotonic() - began
        print(f"{part.name:18} {len(own):5,} answers  {digest}  {seconds:.0f} s", flush=True)
        lines += own
    if given.save:
        given.save.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if given.compare:
        differing = differences(given.compare.read_text(encoding="utf-8").splitlines(), lines)
        print(f"{len(differing):,} of {len(lines):,} answers differ")
        if differing:
            print("\n".join(map(str, differing[0])))
            sys.exit(1)


def parts(folder: Path, data: Path) -> Iterator[Part]:
    """The parts, each with its workspace made."""
    yield Part("demo", demo(folder / "demo"), {"documents": 10_000})
    abstracts = {"ncbi_dev": ABSTRACTS, "bc5cdr_dev": ABSTRACTS}
    by_names = {**FLAGS, **BY_NAMES}
    doid, both = disease(folder, data / "disease")
    yield Part("disease, vectors", doid, abstracts)
    yield Part("disease, names", both, abstracts, by_names)
    docs = {name: TEXTS.get(name, OTHER_TEXTS) for name in SETS}
    for size in SIZES:
        yield Part(f"general {size}", general_workspace(folder, data, size), docs, by_names)
    yield Part("wiki, vectors", wiki_workspace(folder, data), {"pages": PAGES})


def demo(place: Path) -> Path:
    """The two KBs of the demo with vectors, overlaps, and the train documents learnt."""
    with Workspace.open(place, create=True, flags=FLAGS) as workspace:
        for kb in ("encyclopedia", "lanternfall"):
            if kb not in held(workspace):
                workspace.add_kb(kb, DEMO / f"{kb}.jsonl")
        if "documents" not in held(workspace):
            workspace.add_kb("documents", DEMO / "documents.jsonl")
        workspace.build_if_stale()
        if not list(workspace.store.overlap_runs()):
            workspace.find_overlaps()
        if not workspace.store.memory_sources():
            workspace.learn("documents")
    return place


def disease(folder: Path, data: Path) -> tuple[Path, Path]:
    """DOID with vectors and what NCBI Disease train tells; and a copy of that with HP beside."""
    doid, both = folder / "doid", folder / "doid-hp"
    with Workspace.open(doid, create=True, flags=FLAGS) as workspace:
        if "doid" not in held(workspace):
            workspace.add_kb("doid", data / "kb" / "doid.obographs.json.gz")
        for name, (file, types) in CORPORA.items():
            if name not in held(workspace):
                source = data / "corpora" / f"{file}.PubTator.txt.gz"
                options = {"types": types}
                workspace.add_kb(name, source, options=options, links_to="doid", resolve="xref")
        workspace.build_if_stale()
        if not workspace.store.memory_sources():
            workspace.learn("ncbi_train")
    if not both.exists():
        half = both.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(doid, half)
        half.rename(both)
    with Workspace.open(both, flags=FLAGS) as workspace:
        if "hp" not in held(workspace):
            workspace.add_kb("hp", data / "kb" / "hp.obo.gz")
    return doid, both


def answers(part: Part) -> Iterator[str]:
    """One line for each text and way of linking it."""
    with Workspace.open(part.folder, flags=dict(part.flags)) as workspace:
        for docs, most in part.docs.items():
            documents = sample(workspace.store.documents(docs), most)
            for way, texts in (("raw", raw(documents)), ("given", given_places(documents))):
                for linked in workspace.link(texts, wait=False):
                    links = list(map(told, linked.links))
                    answer = {"part": part.name, "docs": docs, "way": way, "text": linked.id}
                    yield json.dumps({**answer, "links": links}, ensure_ascii=False)


def raw(documents: Iterable[Document]) -> list[TextInput]:
    """Texts whose mentions are looked for."""
    return [TextInput(one.id, one.text) for one in documents]


def given_places(documents: Iterable[Document]) -> list[TextInput]:
    """Texts with the places of their mentions."""
    return [
        TextInput(one.id, one.text, tuple(Span(*place) for place in places(one)))
        for one in documents
    ]


def places(document: Document) -> Sequence[tuple[int, int]]:
    """The places of mentions, each once, in reading order."""
    return sorted({(one.start, one.end) for one in document.mentions})


def told(link: Link) -> list[object]:
    """A link as it is compared."""
    meant = str(link.chosen.id) if link.chosen else None
    candidates = [str(one.id) for one in link.candidates]
    return [link.start, link.end, meant, round(link.confidence, 6), candidates]


def differences(before: Sequence[str], now: Sequence[str]) -> list[tuple[str, str]]:
    """The lines of two runs that differ, by part and text; an empty one where there is none."""
    old, new = keyed(before), keyed(now)
    return [
        (f"before: {old.get(key, '')}", f"now:    {new.get(key, '')}")
        for key in dict.fromkeys((*old, *new))
        if old.get(key) != new.get(key)
    ]


def keyed(lines: Iterable[str]) -> dict[tuple[str, ...], str]:
    """Lines by what they answer."""
    return {tuple(json.loads(one)[name] for name in ("part", "docs", "way", "text")): one
            for one in lines}  # fmt: skip


if __name__ == "__main__":
    main()
