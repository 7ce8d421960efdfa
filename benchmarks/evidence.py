"""What memory adds: R@1 with spans given, and F1 from raw text, before and after `kglink learn`.

    python benchmarks/evidence.py ../shared/data/disease [--kbs doid,hp,ncit] [--keep FOLDER]

Adds ontologies and the two corpora of abstracts, twice: as mentions with curated golds, whose
spans are given, and as PubTator, whose golds are found through the entities' own cross-references,
for answers from raw text. Memory learns from the train halves, and weights and probabilities are
fitted to their mentions; all figures are of dev documents. Nothing is trained: the encoder is
MiniLM as it comes.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kglink import Workspace

KB_FILES = {
    "doid": "doid.obographs.json.gz",
    "hp": "hp.obo.gz",
    "ncit": "ncit.obographs.json.gz",
}
#: For each corpus its halves as mentions, and as PubTator.
CORPORA = {
    "ncbi": (("ncbi_train", "ncbi_dev"), ("ncbi_train", "ncbi_devel")),
    "bc5cdr": (("bc5cdr_train", "bc5cdr_dev"), ("bc5cdr_training", "bc5cdr_development")),
}
SPLITS = ("train", "dev")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("disease", type=Path)
    parser.add_argument("--kbs", default=",".join(KB_FILES))
    parser.add_argument("--keep", type=Path, help="workspace to keep, or to use again")
    arguments = parser.parse_args()
    kbs = tuple(arguments.kbs.split(","))
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.keep or Path(made) / "workspace"
        with Workspace.open(folder, create=True, flags={"ingest.on_error": "skip"}) as workspace:
            prepare(workspace, arguments.disease, kbs)
            train = [
                name for pair in CORPORA.values() for name in (pair[0][0], f"{pair[1][0]}_texts")
            ]
            for name in train:
                workspace.learn(name)
            scoring = workspace.fit(train[::2])
            print(f"fitted to {scoring.mentions:,} mentions: R@1 {scoring.recall}")
            for name in train:
                workspace.forget(name)
            measure(workspace, "nothing learnt")
            for name in train:
                workspace.learn(name)
            measure(workspace, "train halves learnt")


def prepare(workspace: Workspace, disease: Path, kbs: Sequence[str]) -> None:
    """Add KBs and corpora, find overlaps, build, where that was not done before."""
    there = {info.name for info in workspace.store.kbs()}
    for kb in kbs:
        if kb not in there:
            print("add-kb", workspace.add_kb(kb, disease / "kb" / KB_FILES[kb]).summary)
    for mentions, texts in CORPORA.values():
        for name, split in zip(mentions, SPLITS, strict=True):
            if name not in there:
                source = disease / "mentions" / f"{name}.jsonl.gz"
                workspace.add_kb(name, source, links_to=kbs, split=split)
        for name, split in zip(texts, SPLITS, strict=True):
            if f"{name}_texts" not in there:
                source = workspace.folder / f"{name}.txt"
                packed = disease / "corpora" / f"{name}.PubTator.txt.gz"
                with gzip.open(packed) as unpacked, source.open("wb") as out:
                    shutil.copyfileobj(unpacked, out)
                workspace.add_kb(f"{name}_texts", source, links_to=kbs, split=split, resolve="xref")
    workspace.find_overlaps()
    workspace.build_if_stale()


def measure(workspace: Workspace, what: str) -> None:
    """Print the figures of the dev halves."""
    for corpus, (mentions, texts) in CORPORA.items():
        report = workspace.evaluate(mentions[1], split="dev", ks=(1, 64))
        recalls = {kb: report.recall(kb) for kb in report.kbs()} | {"mean": report.mean_over_kbs()}
        given = "  ".join(
            f"{kb} {found['R@1']:.3f} {found['R@64']:.3f}" for kb, found in recalls.items()
        )
        print(f"{what:20} {corpus:7} spans given, R@1 R@64: {given}", flush=True)
        answers = workspace.evaluate_end_to_end(f"{texts[1]}_texts", split="dev", per_kb=False)
        figures = answers.as_json()["metrics"]["joint"]  # type: ignore[index]  # a JSON shape
        detected, linked = (figures[name]["strict"]["micro"] for name in ("detection", "links"))
        print(
            f"{what:20} {corpus:7} raw text: detection P {detected['precision']:.3f} "
            f"R {detected['recall']:.3f} F1 {detected['f1']:.3f}, links P "
            f"{linked['precision']:.3f} R {linked['recall']:.3f} F1 {linked['f1']:.3f}, "
            f"ECE {figures['calibration']['ece']:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
