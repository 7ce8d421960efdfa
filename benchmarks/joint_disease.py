"""The joint space of two disease KBs by sources: the tables of Bosch et al. on real data.

    python benchmarks/joint_disease.py ../shared/data/disease --keep FOLDER [--targets doid hp]
        [--rows zero-shot S T TO TS TOS] [--seeds 1] [--epochs 1] [--names 0] [--json FILE]

NCIT is the source KB. Mentions of the train documents of NCBI Disease, BC5CDR and MedMentions are
learnt from, with a tenth of the abstracts held out. So that all rows fit into ninety minutes on two
cores each row has one epoch and no names of the KBs; ``--epochs 2 --names 1`` is the recipe as it
is, whose best epoch is then chosen by what is held out. Figures are those of the dev documents of
NCBI Disease and BC5CDR, by the vectors of one text per entity alone, through the search that users
call. TO and TOS go on from the models of T and TS, which is what training them in one run does.
``p`` is the randomization test of R@1 in the joint pool against zero-shot. What is in the folder
already is not made again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from overlap import KBS as KB_FILES

from kglink.evaluation.measures.retrieval import hit
from kglink.evaluation.rankings import JUDGED_JOINT, RankedMention
from kglink.evaluation.significance import randomization_test
from kglink.training.job import FinetuneJob
from kglink.workspace import Workspace

SOURCE = "ncit"
TRAIN = ("ncbi_train", "bc5cdr_train", "st21pv_train")
DEV = ("ncbi_dev", "bc5cdr_dev")
ROWS = ("zero-shot", "S", "T", "TO", "TS", "TOS")
#: Rows that go on from another row's model.
BEGUN = {"TO": "T", "TOS": "TS", "SO": "S"}
KS = (1, 64)
FLAGS = {"ingest.on_error": "skip", "space.rows": ("text",), "link.found_by": "vectors"}

Figures = dict[str, Any]


class Budget(NamedTuple):
    """How long a row is trained."""

    recipe: str
    epochs: int
    names: float

    @property
    def changes(self) -> dict[str, Any]:
        """What differs from the recipe; of one epoch there is nothing to choose."""
        held_out = {"documents": "held_out", "held_out": 0.0}
        return {
            "train": {"epochs": self.epochs, "names": self.names},
            "selection": {"documents": "dev"} if self.epochs > 1 else held_out,
        }


def main() -> None:
    """Train, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("disease", type=Path)
    parser.add_argument("--keep", type=Path, required=True, help="folder to work in")
    parser.add_argument("--targets", nargs="+", default=["doid", "hp"], choices=["doid", "hp"])
    parser.add_argument("--rows", nargs="+", default=ROWS, choices=[*ROWS, "SO"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--epochs", type=int, default=1, help="of S and T")
    parser.add_argument("--names", type=float, default=0.0, help="names for each mention")
    parser.add_argument("--json", type=Path, help="where all figures are written")
    given = parser.parse_args()
    told, budget = [], Budget(given.recipe, given.epochs, given.names)
    for target in given.targets:
        folder = given.keep / f"{SOURCE}-{target}"
        prepare(folder, given.disease, target)
        head(target)
        zero: Sequence[float] = ()
        for row in given.rows:
            seeds = range(given.seeds if row != "zero-shot" else 1)
            found = [measure(folder, target, row, seed, budget) for seed in seeds]
            zero = found[0]["hits"] if row == "zero-shot" else zero
            for one in found:
                one["p"] = randomization_test(one["hits"], zero).p if len(zero) else None
                show(one)
                told.append({key: value for key, value in one.items() if key != "hits"})
            if len(found) > 1:
                show_spread(row, found)
    if given.json:
        given.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def prepare(folder: Path, disease: Path, target: str) -> None:
    """KBs, documents and overlaps."""
    with Workspace.open(folder, create=True, flags=FLAGS) as workspace:
        there = {info.name for info in workspace.store.kbs()}
        for kb in sorted({SOURCE, target} - there):
            workspace.add_kb(kb, disease / "kb" / KB_FILES[kb])
        for docs in sorted({*TRAIN, *DEV} - there):
            source = folder / f"{docs}.jsonl"
            write_documents(disease / "mentions" / f"{docs}.jsonl.gz", source)
            workspace.add_kb(docs, source, links_to=(SOURCE, target))
        if not workspace.store.overlap_runs():
            workspace.find_overlaps(SOURCE, target)


def write_documents(source: Path, path: Path, share: float = 1.0) -> None:
    """The mentions of a corpus, a tenth of the abstracts of a training corpus held out.

    A share below 1 leaves out the other abstracts for training.
    """
    test = "dev" in source.name
    with gzip.open(source, "rt", encoding="utf-8") as lines, path.open("w") as out:
        for line in lines:
            mention = json.loads(line)
            digest = hashlib.sha256(mention["doc"].encode()).digest()
            lot = int.from_bytes(digest[:8], "big") / 2**64
            if test or lot < 0.1 + 0.9 * share:
                mention["split"] = "test" if test else ("dev" if lot < 0.1 else "train")
                out.write(json.dumps(mention) + "\n")


def measure(folder: Path, target: str, row: str, seed: int, budget: Budget) -> Figures:
    """Train a row's model, where it is not there yet, and evaluate its space."""
    name = f"{row.lower()}-{seed}"
    began = time.monotonic()
    with Workspace.open(folder, flags={**FLAGS, "space.name": name}) as workspace:
        if not (folder / "spaces" / name / "CURRENT").is_file():
            if row == "zero-shot":
                workspace.build()
            else:
                train(workspace, target, row, seed, budget)
        seconds = time.monotonic() - began
        ranked: list[RankedMention] = []
        figures: Figures = {"target": target, "row": row, "seed": seed, "seconds": seconds}
        figures["hits"] = []
        for docs in DEV:
            report = workspace.evaluate(
                docs, split="test", kbs=(SOURCE, target), ks=KS, each=ranked.append
            )
            figures[docs] = report.as_json()
        figures["hits"] = [hit(one.ranks[JUDGED_JOINT], 1) for one in ranked]
        overlaps = workspace.evaluate_overlaps((SOURCE, target))
        asked = next((one for one in overlaps if one.queries == target), None)
        figures["overlaps"] = asked.as_json() if asked else {}
    return figures


def train(workspace: Workspace, target: str, row: str, seed: int, budget: Budget) -> None:
    """Fine-tune, from the model of an earlier row where there is one."""
    changes: dict[str, Any] = {"seed": seed, **budget.changes}
    sources = row
    if row in BEGUN:
        before = workspace.folder / "runs" / f"{BEGUN[row].lower()}-{seed}" / "model"
        changes["model"] = {"base": str(before)}
        sources = "O"
    job = FinetuneJob(
        recipe=budget.recipe,
        sources=sources,
        source_kbs=(SOURCE,),
        target_kbs=(target,),
        docs=TRAIN,
        changes=changes,
        run=f"{row.lower()}-{seed}",
        space=workspace.settings.space.name,
    )
    workspace.finetune(job)


def head(target: str) -> None:
    """The names of the columns."""
    print(f"\nsource {SOURCE}, target {target}: R@1 R@64 MAP@10, means of {' and '.join(DEV)}")
    columns = [f"{pool:20}" for pool in (SOURCE, target, "judged joint", "joint")]
    print(f"{'row':10} seed ", *columns, "MRR   ACS    p      seconds")


def show(figures: Figures) -> None:
    """One line."""
    pools = [_mean(figures, pool) for pool in ("kb." + SOURCE, "kb." + figures["target"])]
    pools += [_mean(figures, pool) for pool in ("judged_joint", "joint")]
    cells = [" ".join(f"{value:.3f}" for value in pool).ljust(20) for pool in pools]
    overlaps = figures["overlaps"]
    near = [f"{overlaps[name]:.3f}" for name in ("MRR", "ACS")] if overlaps else ["-", "-"]
    p = "-" if figures["p"] is None else f"{figures['p']:.4f}"
    time_taken = f"{figures['seconds']:.0f}"
    print(
        f"{figures['row']:10} {figures['seed']:4} ", *cells, *near, f"{p:6}", time_taken, flush=True
    )


def show_spread(row: str, found: Sequence[Figures]) -> None:
    """Mean and standard deviation over seeds of the R@1 of both KBs and of the joint pool."""
    cells = []
    for pool in ("kb." + SOURCE, "kb." + found[0]["target"], "judged_joint"):
        values = [_mean(one, pool)[0] for one in found]
        cells.append(f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}")
    print(f"{row:10} R@1 over {len(found)} seeds: {', '.join(cells)}", flush=True)


def _mean(figures: Figures, pool: str) -> tuple[float, ...]:
    """Figures of a pool, the mean of the corpora."""
    return tuple(
        statistics.mean(_values(figures, pool, name)) for name in ("R@1", "R@64", "MAP@10")
    )


def _values(figures: Figures, pool: str, name: str) -> Iterator[float]:
    for docs in DEV:
        place: Any = figures[docs]
        for step in pool.split("."):
            place = place[step]
        yield place[name]


if __name__ == "__main__":
    main()
