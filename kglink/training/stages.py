"""The stages of a run, in the papers' order, and their batches.

S learns from the annotated mentions of the source KBs, T from those of the target KBs, O from
overlaps between them. With both S and T every epoch sees all batches of S, then all of T. O
comes last, with an optimiser of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from kglink.errors import UsageError
from kglink.files.tables import IntArray
from kglink.plugins import RowRange
from kglink.store import Store
from kglink.training.data import TrainingData
from kglink.training.recipe import OverlapSection, Recipe, StageSection


class Group(NamedTuple):
    """Mentions or overlaps; a batch never mixes two groups."""

    letter: Literal["S", "T", "O"]
    rows: RowRange
    """The KBs' rows: golds and, by default, negatives are among them."""
    items: IntArray
    """Numbers of mentions or of overlap pairs."""
    names: IntArray = np.empty(0, np.int64)
    """Names to learn too; each epoch samples others."""


class Stage(NamedTuple):
    """A training with its own optimiser and schedule."""

    name: str
    section: StageSection | OverlapSection
    groups: tuple[Group, ...]

    def batches(self) -> tuple[int, ...]:
        """Batches of each group in an epoch."""
        size = self.section.batch * self.section.accumulate
        return tuple(max(1, self._learnt(group) // size) for group in self.groups)

    def drawn_names(self, group: Group) -> int:
        """Names of a group that an epoch samples."""
        share = self.section.names if isinstance(self.section, StageSection) else 0
        return min(len(group.names), round(share * len(group.items)))

    def _learnt(self, group: Group) -> int:
        return len(group.items) + self.drawn_names(group)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch."""
        return sum(self.batches())

    @property
    def steps(self) -> int:
        """Steps of the stage."""
        return self.section.epochs * self.steps_per_epoch


class Batch(NamedTuple):
    """The items of one step; gradients of the parts are summed."""

    group: Group
    parts: tuple[IntArray, ...]


def check_kbs(
    store: Store, sources: str, source_kbs: Sequence[str], target_kbs: Sequence[str]
) -> None:
    """Refuse KBs that are not there, and stages that lack KBs."""
    names = [*source_kbs, *target_kbs]
    for name in names:
        store.kb(name)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"KB {twice[0]!r} is named twice", hint="A KB is a source or a target, and once."
        )
    for letter, given, option in (("S", source_kbs, "source"), ("T", target_kbs, "target")):
        if (letter in sources or "O" in sources) and not given:
            raise UsageError(
                f"sources {sources} need a {option} KB",
                hint=f"Name one or more with --{option}-kb, or learn from others: --sources.",
            )


def make_plan(data: TrainingData, recipe: Recipe, sources: str) -> list[Stage]:
    """The stages of a run; one without anything to learn from is an error."""
    stages = []
    letters = sources.replace("O", "")
    if letters:
        # All batches of S come before those of T (Bosch: the order within an epoch).
        groups = tuple(_mentions(data, letter) for letter in sorted(letters))
        for number, section in enumerate(recipe.rounds(), 1):
            name = letters if number == 1 else f"{letters}-again"
            stages.append(Stage(name, section, groups))
    if "O" in sources:
        stages.append(Stage("O", recipe.overlap, (_overlaps(data),)))
    return stages


def warnings_of(data: TrainingData) -> list[str]:
    """Warnings about the data, before training starts."""
    found = []
    for kb in data.pool.kbs:
        entities = kb.stop - kb.start
        if not kb.described:
            found.append(
                f"{kb.name}: none of its {entities:,} entities has a description; "
                "they are known by their names alone"
            )
    if not len(data.valid):
        found.append("there are no documents to choose by: the last epoch is kept")
    outside = sum(one.outside for one in data.counts)
    if outside:
        found.append(f"{outside:,} mentions have their golds in other KBs and are passed over")
    return found


def batches_of(stage: Stage, epoch: int, seed: Sequence[int]) -> list[Batch]:
    """The batches of an epoch, each group shuffled; an incomplete batch is left out."""
    found = []
    for number, (group, count) in enumerate(zip(stage.groups, stage.batches(), strict=True)):
        rng = np.random.default_rng([*seed, epoch, number])
        names = rng.choice(group.names, stage.drawn_names(group), replace=False)
        order = rng.permutation(np.concatenate([group.items, names]))
        size = min(stage.section.batch * stage.section.accumulate, len(order))
        pieces = min(stage.section.accumulate, size)
        for at in range(count):
            items = order[at * size : (at + 1) * size]
            found.append(Batch(group, tuple(np.array_split(items, pieces))))
    return found


def _mentions(data: TrainingData, letter: str) -> Group:
    side: Literal["source", "target"] = "source" if letter == "S" else "target"
    names = data.kbs.sources if letter == "S" else data.kbs.targets
    rows = data.rows(names)
    inside = data.train.within(rows)
    items, names_alone = np.split(inside, [np.searchsorted(inside, data.annotated)])
    if not len(items):
        read = ", ".join(f"{one.documents} ({one.train})" for one in data.counts) or "none"
        raise UsageError(
            f"stage {letter}: there are no annotated mentions of {' or '.join(names)}",
            hint=f"Add documents whose golds are in it (`kglink add-kb DOCS FILE --links-to "
            f"{names[0]}`), or leave {letter} out of --sources. Mentions that were read for "
            f"training, of {side} and other KBs: {read}.",
        )
    return Group("S" if letter == "S" else "T", rows, items, names_alone)


def _overlaps(data: TrainingData) -> Group:
    if len(data.pairs) < 2:
        names = f"{' or '.join(data.kbs.sources)} and {' or '.join(data.kbs.targets)}"
        raise UsageError(
            f"stage O needs two accepted overlaps of {names}, and has {len(data.pairs)}",
            hint="Find them with `kglink overlap`, or leave O out of --sources.",
        )
    return Group("O", data.rows(data.kbs.all), np.arange(len(data.pairs)))
