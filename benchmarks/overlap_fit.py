"""Fit the built-in overlap models from nothing to the curated pairs of two of the disease KBs.

    apt-get download wordnet-base && dpkg-deb -x wordnet-base_*.deb wordnet
    python benchmarks/overlap_fit.py ../shared/data/disease doid hp \
        --wordnet wordnet/usr/share/wordnet/data.noun --keep FOLDER -o FOLDER

This is how the files in `kglink/overlap` were made: from DOID and HP; from the two KBs of the demo,
a wiki and an encyclopedia that give many names to different things, as ontologies do not; and from
words of WordNet with two senses (an onager is an ass, and an engine of war), one sense in each of
two KBs: pairs of one name that nothing but the descriptions tells apart, as small KBs have them.
Pairs are found and weighed by `Workspace.find_overlaps`; what the second pass adds depends on the
model, so finding and fitting alternate. Wrong are pairs that curators did not make though they
gave one of the two entities a counterpart. Each pair teaches four times: with all values; a tenth
as much with those of the first pass alone, so that one model serves both passes; and, as much, with
some evidence left out of either by chance, so that the model knows what absence means. The pairs
of the demo and of WordNet weigh less, half of the demo's without types. The small model reads names
and descriptions.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

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
from kglink.records import Alias, Entity
from kglink.workspace import Workspace
from kglink.workspace.overlap_tools import keep_model

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
    "description": ("description", "descriptions_differ"),
    "parents": ("parents", "level", "children", "children_share"),
    "rivals": ("worse_lead", "better_lead"),
    "type": ("type",),
}
SECOND_PASS = ("parents", "rivals")
CORE = ("names", "description")
#: What the demo's pairs count for, all together, where those of the ontologies count for 1.
DEMO = 0.2
#: The same of WordNet's pairs of one name, all of which are wrong.
HOMONYMS = 0.2
WORDS = 600
#: WordNet's animals, artifacts, bodies, places, objects, persons, plants and substances.
THINGS = frozenset(("05", "06", "08", "15", "17", "18", "20", "27"))
SENSE_KBS = ("one_sense", "other_sense")
DEMO_KBS = ("encyclopedia", "lanternfall")
DEMO_DATA = Path(__file__).parents[1] / "cli" / "kglink_cli" / "demo_data"


class Sense(NamedTuple):
    """One meaning of a word, and the kind of thing that it is."""

    kind: str
    entity: Entity


class Lesson(NamedTuple):
    """Pairs as the model is shown them, which of them are right, and how much each counts."""

    values: list[Values]
    right: list[bool]
    weight: float = 1.0


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("disease", type=Path)
    parser.add_argument("kbs", nargs=2, choices=sorted(KBS))
    parser.add_argument("--wordnet", type=Path, required=True, help="data.noun of WordNet 3.0")
    parser.add_argument("--keep", type=Path, required=True, help="workspace to make or use again")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the models")
    arguments = parser.parse_args()
    left, right = sorted(arguments.kbs)
    gold = read_gold(arguments.disease)[left, right]
    with opened(arguments.keep, arguments.disease) as workspace:
        folder = workspace.folder
    demo = folder / "demo"
    add_demo(demo)
    words = folder / "words"
    add_words(words, arguments.wordnet)
    model = default_model()
    for number in range(ROUNDS):
        ontologies = lesson(folder, model, left, right, gold.judged, gold.pairs)
        wiki = lesson(demo, model, *DEMO_KBS, list, demo_pairs())
        homonyms = lesson(words, model, *SENSE_KBS, list, frozenset())
        lessons = weighted(wiki, homonyms, ontologies)
        model = full_model(*lessons, first=not number)
        print(
            f"round {number + 1}: {len(ontologies.right):,} judged, bias {model.bias}", flush=True
        )
    core = core_model(lessons)
    arguments.output.mkdir(exist_ok=True)
    for name, made in ((DEFAULT_FILE, model), (CORE_FILE, core)):
        (arguments.output / name).write_text(made.to_json() + "\n", encoding="utf-8")


def add_demo(folder: Path) -> None:
    """A workspace with the demo's KBs."""
    with Workspace.open(folder, create=True) as workspace:
        for kb in DEMO_KBS:
            workspace.add_kb(kb, DEMO_DATA / f"{kb}.jsonl")
        workspace.build()


def add_words(folder: Path, nouns: Path) -> None:
    """A workspace with two KBs that share names and nothing else."""
    senses = read_senses(nouns)
    words = sorted(senses)
    np.random.default_rng(1).shuffle(words)
    pairs = [pair for word in words if (pair := two_things(senses[word]))]
    with Workspace.open(folder, create=True) as workspace:
        for kb, entities in zip(SENSE_KBS, zip(*pairs[:WORDS], strict=True), strict=True):
            workspace.add_kb(kb, {entity.key: entity for entity in entities}.values())
        workspace.build()


def read_senses(nouns: Path) -> dict[str, list[Sense]]:
    """What each noun of WordNet may mean."""
    found: dict[str, list[Sense]] = defaultdict(list)
    for line in nouns.read_text(encoding="ascii").splitlines():
        if line.startswith("  "):  # the licence
            continue
        head, _, gloss = line.partition(" | ")
        number, kind, _, count, *words = head.split()
        names = [word.replace("_", " ") for word in words[: 2 * int(count, 16) : 2]]
        text = gloss.partition('; "')[0].strip()  # what follows are examples
        for name in names:
            others = tuple(Alias(one) for one in names if one != name)
            entity = Entity(key=number, title=name, aliases=others, description=text)
            found[name].append(Sense(kind, entity))
    return found


def two_things(senses: Sequence[Sense]) -> tuple[Entity, Entity] | None:
    """The first sense and another, if both are things of different kinds."""
    first, *more = senses
    for other in more:
        if first.kind != other.kind and {first.kind, other.kind} <= THINGS:
            return first.entity, other.entity
    return None


def demo_pairs() -> frozenset[Pair]:
    """All pairs of the demo's KBs that are right."""
    lines = (DEMO_DATA / "overlaps.tsv").read_text(encoding="utf-8").splitlines()[1:]
    ends = [[name.partition(":")[2] for name in line.split("\t")] for line in lines]
    return frozenset((left, right) for left, right in ends)


def lesson(
    folder: Path,
    model: OverlapModel,
    left: str,
    right: str,
    judged: Callable[[Iterable[Pair]], list[Pair]],
    gold: frozenset[Pair],
) -> Lesson:
    """The judged pairs of two KBs with the values that they have under a model."""
    keep_model(folder, model.model_copy(update={"evidence": FULL}))
    found = find(folder, left, right)
    pairs = judged(found)
    return Lesson([found[pair] for pair in pairs], [pair in gold for pair in pairs])


def weighted(wiki: Lesson, homonyms: Lesson, ontologies: Lesson) -> list[Lesson]:
    """The lessons, the smaller ones worth `DEMO` and `HOMONYMS` of the ontologies' right pairs."""
    right = sum(ontologies.right)
    return [
        ontologies,
        wiki._replace(weight=DEMO * right / sum(wiki.right)),
        homonyms._replace(weight=HOMONYMS * right / WORDS),
    ]


def find(folder: Path, left: str, right: str) -> dict[Pair, Values]:
    """All pairs that are weighed, with their values."""
    flags = {"overlap.evidence": FULL, "overlap.threshold": 0.0}
    with Workspace.open(folder, flags=flags) as workspace:
        workspace.find_overlaps(left, right)
        found = workspace.store.overlaps(left, right)
        return {(one.left.key, one.right.key): one.evidence for one in found}


def full_model(ontologies: Lesson, wiki: Lesson, homonyms: Lesson, *, first: bool) -> OverlapModel:
    """The model that explains the judged pairs best."""
    half = wiki._replace(weight=wiki.weight / 2)
    whole = [ontologies, half, _less(half, ("type",)), homonyms]
    once = [_less(one, SECOND_PASS) for one in whole]
    if first:  # what the second pass said followed from some other model
        return _named("default", FULL, fitted(once))
    rng = np.random.default_rng(1)
    parts = [*once, *(_thinned(one, rng) for one in (*whole, *once))]
    parts = [one._replace(weight=one.weight * PART) for one in parts]
    return _named("default", FULL, fitted([*whole, *parts]))


def core_model(lessons: Iterable[Lesson]) -> OverlapModel:
    """The same for names and descriptions alone."""
    other = VALUES.keys() - set(CORE)
    evidence = tuple(f"kglink/{name}" for name in CORE)
    return _named("default", evidence, fitted([_less(lesson, other) for lesson in lessons]))


def fitted(lessons: Sequence[Lesson]) -> OverlapModel:
    """The model that explains all lessons best."""
    return fit(
        [one for lesson in lessons for one in lesson.values],
        [right for lesson in lessons for right in lesson.right],
        OverlapModel(name="", evidence=(), bias=0, weights={}),
        spread=SPREAD,
        sample_weights=[lesson.weight for lesson in lessons for _ in lesson.values],
    )


def without(values: Values, evidence: Iterable[str]) -> Values:
    """The values of other evidence."""
    dropped = {name for one in evidence for name in VALUES[one]}
    return {name: value for name, value in values.items() if name not in dropped}


def _less(lesson: Lesson, evidence: Iterable[str]) -> Lesson:
    names = tuple(evidence)
    return lesson._replace(values=[without(one, names) for one in lesson.values])


def _thinned(lesson: Lesson, rng: np.random.Generator) -> Lesson:
    chances = rng.random((len(lesson.values), len(VALUES)))
    thin = [
        without(one, [name for name, drawn in zip(VALUES, row, strict=True) if drawn < LEFT_OUT])
        for one, row in zip(lesson.values, chances, strict=True)
    ]
    return lesson._replace(values=thin)


def _named(name: str, evidence: tuple[str, ...], model: OverlapModel) -> OverlapModel:
    weights = {
        value: Weight(weight=round(one.weight, 2), absent=round(one.absent, 2))
        for value, one in model.weights.items()
    }
    return OverlapModel(name=name, evidence=evidence, bias=round(model.bias, 2), weights=weights)


if __name__ == "__main__":
    main()
