"""Fit the built-in overlap models from nothing to the curated pairs of two of the disease KBs.

    python benchmarks/overlap_fit.py ../shared/data/disease doid hp --keep FOLDER -o FOLDER

This is how the files in `kglink/overlap` were made (from DOID and HP). Pairs are found and weighed
by `Workspace.find_overlaps`; what the second pass adds depends on the model, so finding and
fitting alternate. Wrong are pairs that curators did not make though they gave one of the two
entities a counterpart. Each pair teaches four times: with all values; a tenth as much with those
of the first pass alone, so that one model serves both passes; and, as much, with some evidence
left out of either by chance, so that the model knows what absence means. The small model reads
names and descriptions alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from overlap import FULL, KBS, opened
from overlap_gold import Pair, read_gold

from kglink.overlap.model import (
    CORE_FILE,
    DEFAULT_FILE,
    OverlapModel,
    Values,
    Weight,
    default_model,
    fit,
)
from kglink.workspace import Workspace
from kglink.workspace.overlaps import keep_model

ROUNDS = 3
#: How much a pair counts with the values of the first pass, or of some evidence, alone.
PART = 0.1
#: How often evidence is left out.
LEFT_OUT = 0.3
#: How far weights may lie from 0, by one standard deviation.
SPREAD = 3.0
VALUES = {
    "names": ("title", "name", "more_names", "name_bearers"),
    "fuzzy": ("same_words", "words", "other_numbers", "letters", "spelling"),
    "neighbours": ("near_names", "all_names", "texts", "name_in_text"),
    "description": ("description",),
    "parents": ("parents", "level", "children", "children_share"),
    "rivals": ("worse_lead", "better_lead"),
}
SECOND_PASS = ("parents", "rivals")
CORE = ("names", "description")
#: Values that these KBs say nothing of, with a weight by judgement.
UNSEEN = {"type": 1.0}

Lesson = tuple[list[Values], float]


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("disease", type=Path)
    parser.add_argument("kbs", nargs=2, choices=sorted(KBS))
    parser.add_argument("--keep", type=Path, required=True, help="workspace to make or use again")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the models")
    arguments = parser.parse_args()
    left, right = sorted(arguments.kbs)
    gold = read_gold(arguments.disease)[left, right]
    with opened(arguments.keep, arguments.disease) as workspace:
        folder = workspace.folder
    model = default_model()
    for number in range(ROUNDS):
        keep_model(folder, model.model_copy(update={"evidence": FULL}))
        found = find(folder, left, right)
        judged = gold.judged(found)
        right_ones = [pair in gold.pairs for pair in judged]
        model = full_model([found[pair] for pair in judged], right_ones, number)
        print(f"round {number + 1}: {len(judged):,} judged pairs, bias {model.bias}", flush=True)
    core = core_model([found[pair] for pair in judged], right_ones)
    arguments.output.mkdir(exist_ok=True)
    for name, made in ((DEFAULT_FILE, model), (CORE_FILE, core)):
        (arguments.output / name).write_text(made.to_json() + "\n", encoding="utf-8")


def find(folder: Path, left: str, right: str) -> dict[Pair, Values]:
    """All pairs that are weighed, with their values."""
    flags = {"overlap.evidence": FULL, "overlap.threshold": 0.0}
    with Workspace.open(folder, flags=flags) as workspace:
        workspace.find_overlaps(left, right)
        found = workspace.store.overlaps(left, right)
        return {(one.left.key, one.right.key): one.evidence for one in found}


def full_model(whole: list[Values], right: list[bool], number: int) -> OverlapModel:
    """The model that explains the judged pairs best."""
    first = [without(one, SECOND_PASS) for one in whole]
    if not number:  # what the second pass said followed from some other model
        return _named("default", FULL, fitted([(first, 1.0)], right))
    rng = np.random.default_rng(1)
    lessons = [(whole, 1.0), (first, PART)]
    lessons += [(_thinned(values, rng), PART) for values in (whole, first)]
    return _named("default", FULL, fitted(lessons, right))


def core_model(whole: list[Values], right: list[bool]) -> OverlapModel:
    """The same for names and descriptions alone."""
    values = [without(one, VALUES.keys() - set(CORE)) for one in whole]
    evidence = tuple(f"kglink/{name}" for name in CORE)
    return _named("default", evidence, fitted([(values, 1.0)], right))


def fitted(lessons: Sequence[Lesson], right: list[bool]) -> OverlapModel:
    """A model of the same pairs with several sets of values."""
    return fit(
        [one for values, _ in lessons for one in values],
        right * len(lessons),
        OverlapModel(name="", evidence=(), bias=0, weights={}),
        spread=SPREAD,
        sample_weights=[weight for values, weight in lessons for _ in values],
    )


def without(values: Values, evidence: Iterable[str]) -> Values:
    """The values of other evidence."""
    dropped = {name for one in evidence for name in VALUES[one]}
    return {name: value for name, value in values.items() if name not in dropped}


def _thinned(values: list[Values], rng: np.random.Generator) -> list[Values]:
    chances = rng.random((len(values), len(VALUES)))
    return [
        without(one, [name for name, drawn in zip(VALUES, row, strict=True) if drawn < LEFT_OUT])
        for one, row in zip(values, chances, strict=True)
    ]


def _named(name: str, evidence: tuple[str, ...], model: OverlapModel) -> OverlapModel:
    weights = {
        value: Weight(weight=round(one.weight, 2), absent=round(one.absent, 2))
        for value, one in model.weights.items()
    }
    if evidence == FULL:
        weights |= {value: Weight(weight=weight) for value, weight in UNSEEN.items()}
    return OverlapModel(name=name, evidence=evidence, bias=round(model.bias, 2), weights=weights)


if __name__ == "__main__":
    main()
