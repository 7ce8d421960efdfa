"""The stages of a run, in the papers' order, and their batches.

S learns from the annotated mentions of the source KBs, T from those of the target KBs, O from
overlaps between them. With both S and T every epoch sees all batches of S, then all of T. O
comes last, with an optimiser of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from kglink.errors import UsageError
from kglink.files.tables import IntArray
from kglink.plugins import RowRange
from kglink.store import Store
from kglink.training.data import TrainingData
from kglink.training.job import FinetuneJob, Note, Tell
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


def with_kbs(store: Store, job: FinetuneJob, tell: Tell) -> FinetuneJob:
    """The job with KBs where its stages need some and it names none.

    The source is the KB with the most annotated mentions, else the most entities; the targets are
    all others. S alone, and T alone, learn from all KBs.
    """
    asked = job.sources or job.chosen_recipe().sources
    is_open = not (asked or job.source_kbs or job.target_kbs)
    stages = "TOS" if is_open else job.stages()
    wanted = [
        side
        for side, given, letters in (
            ("source", job.source_kbs, {"S", "O"}),
            ("target", job.target_kbs, {"T", "O"}),
        )
        if not given and not letters.isdisjoint(stages)
    ]
    named = [store.kb(name).name for name in (*job.source_kbs, *job.target_kbs)]
    if not wanted:
        return job
    mentions = store.count_annotated(job.docs)
    kbs = [info for info in store.kbs() if info.entities]
    rest = sorted(
        (info for info in kbs if info.name not in named),
        key=lambda info: (-mentions.get(info.name, 0), -info.entities, info.name),
    )
    enough = len(rest) >= len(wanted)
    if not (enough or (is_open and rest)):
        raise _too_few_kbs(stages, wanted, [info.name for info in kbs])
    one_source = "source" in wanted and stages != "S" and enough
    first = len(rest) if stages == "S" else int(one_source)
    chosen = {"source": rest[:first], "target": rest[first:]}
    for side in wanted:
        told = [f"{one.name} ({_counted(mentions.get(one.name, 0))})" for one in chosen[side]]
        if told:
            tell(Note(f"{side} KB{'s' * (len(told) > 1)}: {', '.join(told)}"))
    tell(Note(_rule(wanted, one_source, enough, any(mentions.get(one.name) for one in rest))))
    names = {side: tuple(one.name for one in chosen[side]) for side in wanted}
    if asked and "O" in stages and len(wanted) == 2:
        # Nobody chose these KBs: what they cannot teach is left out, as without --sources.
        missing = _unannotated(stages, {"S": names["source"], "T": names["target"]}, mentions)
        for letter, why in missing.items():
            tell(Note(f"stage {letter} is left out: {why}"))
        job = replace(job, sources="".join(one for one in stages if one not in missing))
    return replace(
        job,
        source_kbs=names.get("source", job.source_kbs),
        target_kbs=names.get("target", job.target_kbs),
    )


def _rule(wanted: Sequence[str], one_source: bool, enough: bool, annotated: bool) -> str:
    """Why these KBs were chosen, and how to choose others."""
    if not enough:
        return "there is no second KB: the run learns from annotated mentions alone (stage T)"
    most = "annotated mentions" if annotated else "entities"
    rule = f"the source is the KB with the most {most}; " * one_source
    return f"{rule}choose others with {' and '.join(f'--{side}-kb' for side in wanted)}"


def _counted(mentions: int) -> str:
    return f"{mentions:,} annotated mention{'s' * (mentions != 1)}"


def _too_few_kbs(stages: str, wanted: Sequence[str], kbs: Sequence[str]) -> UsageError:
    alone = "Learn from annotated mentions alone: --sources T. Or add" if kbs else "Add"
    return UsageError(
        f"sources {stages} need a {' and a '.join(wanted)} KB, and "
        f"there is {'only ' + ', '.join(kbs) if kbs else 'no KB'}",
        hint=f"{alone} a KB: `kglink add-kb NAME SOURCE`.",
    )


def check_kbs(store: Store, job: FinetuneJob) -> None:
    """Refuse KBs that are not there, stages that lack KBs, and those without annotated mentions.

    Stages that nobody asked for are left out later where they have nothing to learn from.
    """
    sources, source_kbs, target_kbs = job.stages(), job.source_kbs, job.target_kbs
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
    if job.sources or job.chosen_recipe().sources:
        mentions = store.count_annotated(job.docs)
        sides = {"S": source_kbs, "T": target_kbs}
        if missing := _unannotated(sources, sides, mentions):
            raise _nothing_to_learn(sources, missing, sides)


def make_plan(data: TrainingData, recipe: Recipe, sources: str) -> list[Stage]:
    """The stages of a run; one without anything to learn from is an error."""
    stages = []
    if missing := lacking(data, sources):
        read = ", ".join(f"{one.documents} ({one.train})" for one in data.counts) or "none"
        sides = {"S": data.kbs.sources, "T": data.kbs.targets}
        raise _nothing_to_learn(sources, missing, sides, read)
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
            found[letter] = _no_mentions(_kbs(data, letter))
    if "O" in sources and len(data.pairs) < 2:
        names = " and ".join(" or ".join(kbs) for kbs in (data.kbs.sources, data.kbs.targets))
        found["O"] = f"needs two accepted overlaps of {names}, and has {len(data.pairs)}"
    return found


def _unannotated(
    sources: str, sides: Mapping[str, Sequence[str]], mentions: Mapping[str, int]
) -> dict[str, str]:
    """The stages of mentions whose KBs have none that are annotated, and why."""
    return {
        letter: _no_mentions(sides[letter])
        for letter in sorted(sources.replace("O", ""))
        if not any(mentions.get(kb) for kb in sides[letter])
    }


def _no_mentions(kbs: Sequence[str]) -> str:
    return f"there are no annotated mentions of {' or '.join(kbs)}"


def _nothing_to_learn(
    sources: str, missing: Mapping[str, str], sides: Mapping[str, Sequence[str]], read: str = ""
) -> UsageError:
    """``read``: the documents that were read, with their mentions."""
    hints = []
    if rest := "".join(letter for letter in sources if letter not in missing):
        hints.append(f"Learn from the others alone: --sources {rest}.")
    if mentions := [letter for letter in missing if letter != "O"]:
        kb = sides[mentions[0]][0]
        hints.append(
            f"Add documents whose golds are in {kb}: `kglink add-kb DOCS FILE --links-to {kb}`."
        )
        if read:
            hints.append(f"Mentions that were read for training, of all KBs: {read}.")
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
