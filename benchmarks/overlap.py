"""Overlaps of DOID, NCIT and HP against curated pairs: by names, by the paper's method, by all.

    python benchmarks/overlap.py ../shared/data/disease --keep FOLDER [--model FILE]
    python benchmarks/overlap.py --synthetic 1000000x100000

Cross-references are not read. The built-in model was fitted to the curated pairs of DOID and HP
(`overlap_fit.py`), so that its figures for the other KBs are of pairs that nothing was chosen on;
``--model`` measures another one in its place. What counts as right, as wrong and as first place is
said in `overlap_gold.py`.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from overlap_gold import Gold, Pair, read_gold

from kglink.overlap.model import read_model
from kglink.overlap.weigh import assign_one_to_one
from kglink.records import Progress
from kglink.workspace import Workspace
from kglink.workspace.folder import OVERLAP_MODEL_FILE
from kglink.workspace.overlap_tools import keep_model

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from calibration import calibration, calibration_error

KBS = {"doid": "doid.obographs.json.gz", "hp": "hp.obo.gz", "ncit": "ncit.obographs.json.gz"}
PAIRS = (("doid", "ncit"), ("doid", "hp"), ("hp", "ncit"))
FULL = (
    "kglink/names",
    "kglink/fuzzy",
    "kglink/neighbours",
    "kglink/description",
    "kglink/type",
    "kglink/parents",
    "kglink/rivals",
)
METHODS: dict[str, dict[str, object]] = {
    "names, strict": {"overlap.method": "names"},
    "names, folded": {"overlap.method": "names", "overlap.names": "folded"},
    "paper, strict": {"overlap.method": "paper"},
    "paper, folded": {"overlap.method": "paper", "overlap.names": "folded"},
}
#: The least probability that is kept, so that ranks can be told; figures are of pairs from .5 on.
LEAST = 0.02
THRESHOLD = 0.5


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("disease", type=Path, nargs="?")
    parser.add_argument("--keep", type=Path, help="workspace to make, or to use again")
    parser.add_argument("--model", type=Path, help="an overlap model in place of the built-in one")
    parser.add_argument(
        "--kbs", nargs=2, choices=sorted(KBS), help="these two alone, by all evidence"
    )
    parser.add_argument("--synthetic", metavar="MxN", help="two KBs of so many made-up entities")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.keep or Path(made) / "workspace"
        if arguments.synthetic:
            sizes = [int(part) for part in arguments.synthetic.split("x")]
            synthetic(folder, *sizes)
        elif arguments.disease is None:
            parser.error("the folder of the disease KBs, or --synthetic, is needed")
        else:
            with opened(folder, arguments.disease):
                pass
            pairs = (tuple(sorted(arguments.kbs)),) if arguments.kbs else PAIRS
            methods = {} if arguments.kbs else METHODS
            set_model(folder, arguments.model)
            measure(folder, read_gold(arguments.disease), pairs, methods)


def opened(folder: Path, disease: Path) -> Workspace:
    """The workspace with the three KBs and their vectors."""
    workspace = Workspace.open(folder, create=True, flags={"ingest.on_error": "skip"})
    for kb in sorted(KBS.keys() - {info.name for info in workspace.store.kbs()}):
        workspace.add_kb(kb, disease / "kb" / KBS[kb])
    workspace.build()
    return workspace


def set_model(folder: Path, model: Path | None) -> None:
    """Make searches use a model of a file, or the built-in one."""
    (folder / OVERLAP_MODEL_FILE).unlink(missing_ok=True)
    if model is not None:
        keep_model(folder, read_model(model))


def measure(
    folder: Path,
    golds: dict[Pair, Gold],
    pairs: Sequence[Pair],
    methods: Mapping[str, dict[str, object]],
) -> None:
    """Some methods, and all evidence, for some pairs of KBs."""
    print(
        f"{'KBs':10} {'method':14} {'all: P R F1':18} {'one-to-one: P R F1':18} no name     CPU s"
    )
    for method, flags in methods.items():
        for left, right in pairs:
            found, seconds = find(folder, left, right, flags)
            show(f"{left}-{right}", method, list(found), golds[left, right], seconds)
    full: dict[str, object] = {"overlap.threshold": LEAST}
    for left, right in pairs:
        found, seconds = find(folder, left, right, full)
        kept = {pair: known for pair, known in found.items() if known >= THRESHOLD}
        gold = golds[left, right]
        show(f"{left}-{right}", "full", list(kept), gold, seconds)
        show(f"{left}-{right}", "full, 1-to-1", _one_to_one(kept), gold, seconds)
        _show_ranks(found, gold)
        _show_calibration(found, gold)


def find(
    folder: Path, left: str, right: str, flags: dict[str, object]
) -> tuple[dict[Pair, float], float]:
    """The pairs of a search with their scores, and the processor's seconds."""
    with Workspace.open(folder, flags=flags) as workspace:
        started = time.process_time()
        workspace.find_overlaps(left, right)
        seconds = time.process_time() - started
        found = workspace.store.overlaps(left, right)
        return {(one.left.key, one.right.key): one.probability for one in found}, seconds


def show(kbs: str, method: str, found: list[Pair], gold: Gold, seconds: float) -> None:
    """One line of the table."""
    every, single = gold.quality(found), gold.quality(found, one_to_one=True)
    without = gold.pairs - gold.shares_name
    share = len(without & set(found)) / len(without)
    print(
        f"{kbs:10} {method:14} {every!s:18} {single!s:18} {share:.3f}  {seconds:8.1f}", flush=True
    )


def _one_to_one(kept: dict[Pair, float]) -> list[Pair]:
    pairs = list(kept)
    lefts, rights = [left for left, _ in pairs], [right for _, right in pairs]
    chosen = assign_one_to_one(lefts, rights, list(kept.values()), THRESHOLD)
    return [
        pair for pair, is_kept in zip(pairs, np.asarray(chosen).tolist(), strict=True) if is_kept
    ]


def _show_ranks(found: dict[Pair, float], gold: Gold) -> None:
    for name, wanted in (
        ("without a shared name", gold.nameless),
        ("with a shared name", gold.one_to_one & gold.shares_name),
    ):
        left, right = gold.first(found, wanted)
        print(f"    first place, {len(wanted)} {name}: {left:.3f} {right:.3f}", end="")
        print(f" mean {(left + right) / 2:.3f}")


def _show_calibration(found: dict[Pair, float], gold: Gold) -> None:
    judged = gold.judged(found)
    bins = calibration([found[one] for one in judged], [one in gold.pairs for one in judged])
    print(f"    calibration error {calibration_error(bins):.3f}; said -> seen (pairs):", end="")
    for one in bins:
        print(f" {one.mean_probability:.2f}->{one.share_correct:.2f} ({one.pairs})", end="")
    print()


# -------------------------------------------------------------------------------- synthetic
def synthetic(folder: Path, large: int, small: int) -> None:
    """Names of two or three of 50,000 words; a third of the smaller KB is in the larger one.

    Of these a half has the name with its words turned round. No vectors: the encoder's speed is
    measured elsewhere.
    """
    evidence = [name for name in FULL if name.split("/")[1] in ("names", "fuzzy", "rivals")]
    flags: dict[str, object] = {"overlap.evidence": evidence, "overlap.max_encoded_rows": 0}
    with Workspace.open(folder, create=True, flags=flags) as workspace:
        for name, lines in (("large", _made(large)), ("small", _made(small, large))):
            path = folder / f"{name}.jsonl"
            with path.open("w", encoding="utf-8") as out:
                out.writelines(f"{line}\n" for line in lines)
            workspace.add_kb(name, path)
        before, started, used = _peak(), time.perf_counter(), time.process_time()
        (report,) = workspace.find_overlaps("large", "small", progress=_Told())
        seconds = time.perf_counter() - started
        right = sum(
            one.left.key == one.right.key for one in workspace.store.overlaps("large", "small")
        )
        used = time.process_time() - used
        print(f"{large:,} x {small:,} entities: {seconds:.0f} s, {used:.0f} s of CPU")
        print(f"{report.candidates:,} candidates, {report.candidates / seconds:,.0f} a second")
        print(f"{report.kept:,} kept, {right:,} of them right, of {small // 3:,}")
        print(f"peak memory {_peak():,} MiB, {before:,} MiB before the search")


def _made(count: int, other: int = 0) -> Iterator[str]:
    """Entities; with ``other``, every third has the key and the words of one of so many others."""
    for number in range(count):
        same = bool(other) and number % 3 == 0
        key = number * (other // count) if same else number + other * 10
        words = _words(key)
        if same and number % 2:
            words.reverse()
        yield json.dumps({"id": f"{key:09}", "title": " ".join(words)})


def _words(key: int) -> list[str]:
    rng = random.Random(key)  # noqa: S311 - no secret
    # Squared: few words are frequent, many rare, as in real names.
    return [f"w{int(50_000 * rng.random() ** 2)}" for _ in range(rng.choice((2, 3)))]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class _Told:
    """Prints what a search begins."""

    def __init__(self) -> None:
        self._name = ""

    def __call__(self, progress: Progress) -> None:
        if progress.step != self._name:
            self._name = progress.step
            print(f"    {time.strftime('%X')} {progress.step}", flush=True)


if __name__ == "__main__":
    main()
