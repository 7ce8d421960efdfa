"""Fit an overlap model from nothing to the curated pairs of two of the disease KBs.

    python benchmarks/overlap_fit.py ../shared/data/disease doid hp --keep FOLDER -o MODEL

This is how `kglink/overlap/default_model.json` was made (from DOID and HP). Pairs are found and
weighed by `Workspace.find_overlaps`; what the second pass adds depends on the model, so finding
and fitting alternate. Wrong are pairs that curators did not make though they gave one of the two
entities a counterpart. Each pair counts twice: with all values, and, a tenth as much, with those
of the first pass alone, so that one model serves both passes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from overlap import FULL, KBS, opened
from overlap_gold import Gold, Pair, read_gold

from kglink.overlap.model import OverlapModel, Values, Weight, default_model, fit
from kglink.workspace import Workspace
from kglink.workspace.overlaps import keep_model

ROUNDS = 3
#: How much a pair with the values of the first pass alone counts.
FIRST_PASS = 0.1
#: How far weights may lie from 0, by one standard deviation.
SPREAD = 3.0
SECOND_PASS = frozenset((
    "worse_lead", "better_lead", "parents", "level", "children", "children_share", "through",
    "conflict",
))  # fmt: skip
#: Values that these KBs say nothing of, with a weight by judgement.
UNSEEN = {"type": 1.0}


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("disease", type=Path)
    parser.add_argument("kbs", nargs=2, choices=sorted(KBS))
    parser.add_argument("--keep", type=Path, required=True, help="workspace to make or use again")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    left, right = sorted(arguments.kbs)
    gold = read_gold(arguments.disease)[left, right]
    third = next(iter(set(KBS) - {left, right}))
    with opened(arguments.keep, arguments.disease) as workspace:
        model = _start()
        for number in range(ROUNDS):
            keep_model(workspace.folder, model)
            if number:
                for kb in (left, right):
                    find(workspace, kb, third, 0.5)
            values = find(workspace, left, right, 0.0)
            model = fitted(values, gold, number)
            print(f"round {number + 1}: {model.title}")
    arguments.output.write_text(model.to_json() + "\n", encoding="utf-8")


def find(workspace: Workspace, left: str, right: str, threshold: float) -> dict[Pair, Values]:
    """The pairs of two KBs that are at least so probable, with their values."""
    flags = {"overlap.evidence": FULL, "overlap.threshold": threshold}
    with Workspace.open(workspace.folder, flags=flags) as current:
        (report,) = current.find_overlaps(left, right)
        print(f"{left}-{right}: {report.candidates:,} candidates, {report.kept:,} kept", flush=True)
        if threshold:
            return {}
        found = current.store.overlaps(left, right)
        return {(one.left.key, one.right.key): one.evidence for one in found}


def fitted(found: dict[Pair, Values], gold: Gold, number: int) -> OverlapModel:
    """The model that explains the judged pairs best."""
    judged = gold.judged(found)
    whole = [found[pair] for pair in judged]
    first = [{k: v for k, v in one.items() if k not in SECOND_PASS} for one in whole]
    right = [pair in gold.pairs for pair in judged]
    # What the second pass says in the first round follows from a model that knows nothing.
    lessons = [(first, 1.0)] if not number else [(whole, 1.0), (first, FIRST_PASS)]
    model = fit(
        [one for values, _ in lessons for one in values],
        right * len(lessons),
        OverlapModel(name="", evidence=FULL, bias=0, weights={}),
        spread=SPREAD,
        sample_weights=[weight for values, weight in lessons for _ in values],
    )
    weights = {
        name: Weight(weight=round(one.weight, 2), absent=round(one.absent, 2))
        for name, one in model.weights.items()
    }
    weights |= {name: Weight(weight=weight) for name, weight in UNSEEN.items()}
    return OverlapModel(name="default", evidence=FULL, bias=round(model.bias, 2), weights=weights)


def _start() -> OverlapModel:
    return default_model().model_copy(update={"evidence": FULL})


if __name__ == "__main__":
    main()
