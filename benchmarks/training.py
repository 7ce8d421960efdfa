"""What fine-tuning is worth beside memory: three ontologies, spans given, several seeds.

    python benchmarks/training.py ../shared/data/disease --keep FOLDER [--seeds 3]
        [--set train.epochs=2 --set train.batch=64]

NCIT is the source, DOID and HP are the targets; runs learn from the train documents of NCBI Disease
and BC5CDR, a tenth of them held back, and are published by the rule of `kglink finetune`: once with
nothing learnt, and once with memory of the same documents. Printed are R@1 of the mentions held
back, before and after, and of the dev documents of both corpora, with the default weights of
evidence: nothing learnt, memory learnt, and of words that memory does not know. On two cores a run
takes the greater part of an hour, on a GPU two minutes.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from evidence import DEV, KB_FILES, LEARNT, Bench, expected_right, prepare

from kglink import FinetuneJob, Workspace
from kglink_cli.finetune import read_changes

SOURCE, TARGETS = ("ncit",), ("doid", "hp")
#: Mentions of each dev corpus.
MOST = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("disease", type=Path)
    parser.add_argument("--keep", type=Path, required=True, help="a folder for the workspaces")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="a value of the recipe")
    asked = parser.parse_args()
    base = asked.keep / "base"
    with opened(base) as workspace:
        prepare(workspace, asked.disease, tuple(KB_FILES))
        print("as it comes:", answers(workspace), flush=True)
    for seed in range(asked.seeds):
        for learnt in ((), LEARNT):
            folder = asked.keep / f"seed-{seed}{'-memory' * bool(learnt)}"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(base, folder)
            with opened(folder) as workspace:
                Bench(workspace, tuple(KB_FILES), MOST).learn(learnt)
                print(f"seed {seed}, {'memory' if learnt else 'nothing'} learnt:",
                      trained(workspace, seed, read_changes(asked.set)), flush=True)  # fmt: skip
                if not learnt:
                    print(f"seed {seed}, dev documents:", answers(workspace), flush=True)


def opened(folder: Path) -> Workspace:
    return Workspace.open(folder, create=True, flags={"ingest.on_error": "skip"})


def trained(workspace: Workspace, seed: int, changes: Mapping[str, Any]) -> str:
    """Train and publish by the rule; what became of it."""
    held_back = {"selection": {"documents": "held_out"}, "seed": seed}
    job = FinetuneJob(
        *(SOURCE, TARGETS, "TOS", LEARNT), changes={**changes, **held_back}, what="linker"
    )
    done = workspace.finetune(job)
    tests = done.replacement.tests if done.replacement else {}
    lines = [f"{pool} {test.right:.3f} to {test.left:.3f} of {test.items}"
             for pool, test in tests.items()]  # fmt: skip
    if done.refused:  # measured all the same
        workspace.finetune(FinetuneJob(resume=True, run=done.report.folder.name, publish=True))
    return "; ".join([done.refused or "published", *lines])


def answers(workspace: Workspace) -> str:
    """R@1 of the dev documents."""
    bench, figures = Bench(workspace, tuple(KB_FILES), MOST), []
    for learnt in ((), LEARNT):
        bench.learn(learnt)
        search = bench.search()
        right, known = ranked(bench, search)
        figures.append(f"{'memory' if learnt else 'nothing'} learnt {right.mean():.3f}")
    figures.append(f"unknown words {right[~known].mean():.3f} of {(~known).sum()}")
    return ", ".join(figures)


def ranked(bench: Bench, search: Any) -> tuple[Any, Any]:
    """How likely the first candidate of each mention is right, and whether memory knows it."""
    found = []
    for name in DEV:
        judged = bench.ranked(search, [name])
        judged = judged.part(np.asarray(judged.rankings.answered))
        found.append((expected_right(judged.rankings, search.scoring.weights), judged.known))
    right, known = zip(*found, strict=True)
    return np.concatenate(right), np.concatenate(known)


if __name__ == "__main__":
    main()
