"""Samplers, scorers and encoders of the papers on one budget of steps: does their order hold?

    python benchmarks/variants_disease.py ../shared/data/disease --keep FOLDER [--seeds 3]
        [--samplers ...] [--scorers ...] [--encoders ...] [--batch 32] [--others 2000]
        [--share 0.4] [--epochs 1] [--epsilon 20] [--json FILE]

The pool are the entities of NCIT and HP that any of the mentions means, and so many others of
each KB, by lot: a run takes a minute or two. What is learnt are the mentions of HP (stage T) in a
share of the train abstracts of NCBI Disease and BC5CDR, in windows of 32 tokens, the same batches
for all variants of one seed. Figures are recalls on the tenth of the abstracts that is held out,
by exact search of the pool. Negatives of a mention are four, in a row of its own; ``in_batch``
has the other golds of the batch. Cross-domain samplers draw from both KBs. Then the papers'
claims are counted, pair by pair. What is in the folder already is not made again.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path
from typing import Any, NamedTuple

from joint_disease import FLAGS, SOURCE, write_documents
from overlap import KBS as KB_FILES

from kglink.plugins import load_registry
from kglink.records import Entity
from kglink.training.job import FinetuneJob
from kglink.training.run import read_report
from kglink.training.train import train
from kglink.workspace import Workspace
from kglink_kbs.jsonl import record_line

TARGET = "hp"
TRAIN = ("ncbi_train", "bc5cdr_train")
NEGATIVES = 4
SAMPLERS = (
    "in_batch",
    "random_cross_domain",
    "hard_cross_domain",
    "random_in_domain",
    "hard_in_domain",
    "mixed_p",
    "knn",
    "adaptive_mixup_hard",
)
POOLINGS = {"dual": "cls", "mean": "mean", "sum_of_max": "tokens"}
TOKENS = 32
#: A sum over all tokens of a mention is as many times larger than a cosine, and so is its share.
TEMPERATURES = {"dual": 0.05, "mean": 0.05, "sum_of_max": 0.05 * TOKENS}
ENCODERS = ("plain", "transformed")


class Variant(NamedTuple):
    """What is varied."""

    sampler: str
    scorer: str
    encoder: str


class Budget(NamedTuple):
    """How long a variant is trained, and how far its adversary may go."""

    batch: int
    epochs: int
    epsilon: float


class Claim(NamedTuple):
    """What a paper says: the left variant is better than the right one, all else equal."""

    text: str
    metric: str
    other: Callable[[Variant], Variant | None]
    """The one that should be worse; None where the claim says nothing of a variant."""


def main() -> None:
    """Train, print the table, count the claims."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("disease", type=Path)
    parser.add_argument("--keep", type=Path, required=True, help="folder to work in")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samplers", nargs="+", default=SAMPLERS, choices=SAMPLERS)
    parser.add_argument("--scorers", nargs="+", default=list(POOLINGS), choices=POOLINGS)
    parser.add_argument("--encoders", nargs="+", default=ENCODERS, choices=ENCODERS)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--others", type=int, default=2000, help="entities of a KB that none means")
    parser.add_argument("--share", type=float, default=0.4, help="of the abstracts for training")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--epsilon", type=float, default=20.0, help="ball of the transformation")
    parser.add_argument("--json", type=Path, help="where all figures are written")
    given = parser.parse_args()
    folder = given.keep / f"variants-{given.others}-{given.share}"
    prepare(folder, given.disease, given.others, given.share)
    budget = Budget(given.batch, given.epochs, given.epsilon)
    found: dict[Variant, list[dict[str, float]]] = {}
    print(f"{'sampler':20} {'scorer':11} {'encoder':12} R@1           R@64          s a run")
    for names in itertools.product(given.samplers, given.scorers, given.encoders):
        variant = Variant(*names)
        runs = [run(folder, variant, seed, budget) for seed in range(given.seeds)]
        found[variant] = runs
        cells = [spread([one[metric] for one in runs]) for metric in ("R@1", "R@64", "seconds")]
        print(f"{variant.sampler:20} {variant.scorer:11} {variant.encoder:12}", *cells, flush=True)
    for line in judged(found):
        print(line)
    if given.json:
        told = [{**variant._asdict(), "runs": runs} for variant, runs in found.items()]
        given.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def prepare(folder: Path, disease: Path, others: int, share: float) -> None:
    """A part of the documents and of the KBs."""
    with Workspace.open(folder, create=True, flags=FLAGS) as workspace:
        if {info.name for info in workspace.store.kbs()} >= {SOURCE, TARGET, *TRAIN}:
            return
        files = {docs: folder / f"{docs}.jsonl" for docs in TRAIN}
        for docs, path in files.items():
            write_documents(disease / "mentions" / f"{docs}.jsonl.gz", path, share)
        for kb in (SOURCE, TARGET):
            meant = set(golds_of(kb, files.values()))
            part = folder / f"{kb}.jsonl"
            with part.open("w", encoding="utf-8") as out:
                for entity in drawn(kb, disease / "kb" / KB_FILES[kb], meant, others):
                    out.write(record_line(entity))
            workspace.add_kb(kb, part)
        for docs, path in files.items():
            workspace.add_kb(docs, path, links_to=(SOURCE, TARGET))


def golds_of(kb: str, documents: Iterable[Path]) -> Iterator[str]:
    """The keys of all entities of a KB that a mention means."""
    for path in documents:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield from json.loads(line)["gold"].get(kb, ())


def drawn(kb: str, source: Path, meant: Set[str], others: int) -> Iterator[Entity]:
    """The entities of a KB that are meant, and others by lot, always the same ones."""
    with (
        tempfile.TemporaryDirectory() as made,
        Workspace.open(Path(made), create=True, flags=FLAGS) as whole,
    ):
        whole.add_kb(kb, source)
        rest = [one.key for one in whole.store.entities(kb) if one.key not in meant]
        lots = sorted(rest, key=lambda key: hashlib.sha256(key.encode()).digest())
        kept = meant | set(lots[:others])
        yield from (one for one in whole.store.entities(kb) if one.key in kept)


def run(folder: Path, variant: Variant, seed: int, budget: Budget) -> dict[str, float]:
    """The recalls of one run, trained where it is not there yet."""
    place = folder / "variants" / "-".join([*variant, *map(str, budget), str(seed)])
    began = time.monotonic()
    report = read_report(place)
    if report is None:
        with Workspace.open(folder, flags=FLAGS) as workspace:
            job = FinetuneJob(
                (SOURCE,), (TARGET,), "T", TRAIN, changes=changes_of(variant, seed, budget)
            )
            report = train(workspace.store, load_registry(only="builtin"), job, place)
    recalls: Any = report.recalls
    return {**recalls["kb"][TARGET], "seconds": report.seconds or time.monotonic() - began}


def changes_of(variant: Variant, seed: int, budget: Budget) -> dict[str, Any]:
    """What differs from the default recipe."""
    own = variant.sampler != "in_batch"
    ball = {"transformation": {"layer": 1, "epsilon": budget.epsilon}}
    return {
        "seed": seed,
        "model": {
            "scorer": variant.scorer,
            "pooling": POOLINGS[variant.scorer],
            "inputs": {"mention_tokens": TOKENS, "entity_tokens": TOKENS},
        },
        "train": {
            "sampler": variant.sampler,
            "negatives": NEGATIVES if own else 0,
            "columns": "own" if own else "in_batch",
            "negatives_from": "all" if "cross" in variant.sampler else "stage",
            "objective_settings": {"temperature": TEMPERATURES[variant.scorer]},
            "names": 0.0,
            "epochs": budget.epochs,
            "batch": budget.batch,
            **(ball if variant.encoder == "transformed" else {}),
        },
        "selection": {"documents": "dev"},
    }


def spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    if max(values) > 1:
        return f"{statistics.mean(values):.0f}"
    wide = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f} ± {wide:.3f}"


def claims() -> Iterator[Claim]:
    """What the papers found."""

    def sampler(better: str, worse: str) -> Callable[[Variant], Variant | None]:
        return lambda one: one._replace(sampler=worse) if one.sampler == better else None

    for kind in ("random", "hard"):
        better, worse = f"{kind}_in_domain", f"{kind}_cross_domain"
        yield Claim(f"{better} over {worse} (T-Biencoder)", "R@64", sampler(better, worse))
    for scope in ("in_domain", "cross_domain"):
        better, worse = f"hard_{scope}", f"random_{scope}"
        yield Claim(f"{better} over {worse}", "R@1", sampler(better, worse))
    amh = sampler("adaptive_mixup_hard", "hard_in_domain")
    yield Claim("adaptive_mixup_hard over hard_in_domain (AMH)", "R@64", amh)
    yield Claim(
        "transformed over plain (T-Biencoder)",
        "R@64",
        lambda one: one._replace(encoder="plain") if one.encoder == "transformed" else None,
    )
    yield Claim(
        "sum_of_max over dual",
        "R@64",
        lambda one: one._replace(scorer="dual") if one.scorer == "sum_of_max" else None,
    )


def judged(found: dict[Variant, list[dict[str, float]]]) -> Iterator[str]:
    """How often each claim holds, seed by seed, and the mean difference."""
    for claim in claims():
        differences = [
            better[claim.metric] - worse[claim.metric]
            for variant, runs in found.items()
            if (other := claim.other(variant)) in found
            for better, worse in zip(runs, found[other], strict=True)
        ]
        if differences:
            holds = sum(one > 0 for one in differences)
            mean = statistics.mean(differences)
            yield (
                f"{claim.text}, {claim.metric}: {holds} of {len(differences)} times, {mean:+.3f}"
            )


if __name__ == "__main__":
    main()
