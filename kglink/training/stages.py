"""The stages of a run, in the papers' order, and their batches.

S learns from the annotated mentions of the source KBs, T from those of the target KBs, O from
overlaps between them. With both S and T every epoch sees all batches of S, then all of T. O
comes last, with an optimiser of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    if missing := lacking(data, sources):
        raise _nothing_to_learn(data, sources, missing)
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


def lacking(data: TrainingData, sources: str) -> dict[str, str]:
    """The stages that have nothing to learn from, by their letters, and why."""
    found: dict[str, str] = {}
    for letter in sorted(sources.replace("O", "")):
        if not len(_mentions(data, letter).items):
            found[letter] = f"there are no annotated mentions of {' or '.join(_kbs(data, letter))}"
    if "O" in sources and len(data.pairs) < 2:
        names = " and ".join(" or ".join(kbs) for kbs in (data.kbs.sources, data.kbs.targets))
        found["O"] = f"needs two accepted overlaps of {names}, and has {len(data.pairs)}"
    return found


def _nothing_to_learn(data: TrainingData, sources: str, missing: Mapping[str, str]) -> UsageError:
    hints = []
    if rest := "".join(letter for letter in sources if letter not in missing):
        hints.append(f"Learn from the others alone: --sources {rest}.")
    if mentions := [letter for letter in missing if letter != "O"]:
        kb = _kbs(data, mentions[0])[0]
        read = ", ".join(f"{one.documents} ({one.train})" for one in data.counts) or "none"
        hints.append(
            f"Add documents whose golds are in {kb}: `kglink add-kb DOCS FILE --links-to {kb}`. "
            f"Mentions that were read for training, of all KBs: {read}."
        )
    if "O" in missing:
        hints.append(
            "`kglink overlap show` lists the pairs that were found; `kglink overlap --import` "
            "takes those that you know."
        )
    return UsageError(
        "; ".join(f"stage {letter}: {why}" for letter, why in missing.items()),
        hint=" ".join(hints),
    )


def _kbs(data: TrainingData, letter: str) -> tuple[str, ...]:
    return tuple(data.kbs.sources if letter == "S" else data.kbs.targets)


def _mentions(data: TrainingData, letter: str) -> Group:
    rows = data.rows(_kbs(data, letter))
    inside = data.train.within(rows)
    items, names_alone = np.split(inside, [np.searchsorted(inside, data.annotated)])
    return Group("S" if letter == "S" else "T", rows, items, names_alone)


def _overlaps(data: TrainingData) -> Group:
    return Group("O", data.rows(data.kbs.all), np.arange(len(data.pairs)))
