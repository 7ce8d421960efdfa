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

from kglink.arrays import IntArray
from kglink.errors import UsageError
from kglink.evaluation.retrieval import check_annotated
from kglink.plugins import RowRange
from kglink.store import Store
from kglink.training.data import KBChoice, TrainingData
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
        learnt = [len(group.items) + self.drawn_names(group) for group in self.groups]
        return tuple(max(1, count // size) for count in learnt)

    def drawn_names(self, group: Group) -> int:
        """Names of a group that an epoch samples."""
        share = self.section.names if isinstance(self.section, StageSection) else 0
        return min(len(group.names), round(share * len(group.items)))

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch."""
        return sum(self.batches())

    @property
    def steps(self) -> int:
        """Steps of the stage."""
        return self.section.epochs * self.steps_per_epoch


class StepItems(NamedTuple):
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
    sides = (("source", job.source_kbs, "SO"), ("target", job.target_kbs, "TO"))
    wanted = [side for side, given, of in sides if not given and not set(of).isdisjoint(stages)]
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
        there = f"only {', '.join(info.name for info in kbs)}" if kbs else "no KB"
        alone = "Learn from annotated mentions alone: --sources T. Or add" if kbs else "Add"
        raise UsageError(
            f"sources {stages} need a {' and a '.join(wanted)} KB, and there is {there}",
            hint=f"{alone} a KB: `kglink add-kb NAME SOURCE`.",
        )
    one_source = "source" in wanted and stages != "S" and enough
    first = len(rest) if stages == "S" else int(one_source)
    chosen = {"source": rest[:first], "target": rest[first:]}
    for side in wanted:
        counts = [(one.name, mentions.get(one.name, 0)) for one in chosen[side]]
        counted = [f"{name} ({n:,} annotated mention{'s' * (n != 1)})" for name, n in counts]
        if counted:
            tell(Note(f"{side} KB{'s' * (len(counted) > 1)}: {', '.join(counted)}"))
    if enough:
        annotated = any(mentions.get(one.name) for one in rest)
        most = "annotated mentions" if annotated else "entities"
        rule = f"the source is the KB with the most {most}; " * one_source
        tell(Note(f"{rule}choose others with {' and '.join(f'--{side}-kb' for side in wanted)}"))
    else:
        tell(Note("there is no second KB: the run learns from annotated mentions alone (stage T)"))
    names = {side: tuple(one.name for one in chosen[side]) for side in wanted}
    if asked and "O" in stages and len(wanted) == 2:
        # Nobody chose these KBs: what they cannot teach is left out, as without --sources.
        missing = _unannotated(stages, KBChoice(names["source"], names["target"]), mentions)
        for letter, why in missing.items():
            tell(Note(f"stage {letter} is left out: {why}"))
        job = replace(job, sources="".join(one for one in stages if one not in missing))
    return replace(
        job,
        source_kbs=names.get("source", job.source_kbs),
        target_kbs=names.get("target", job.target_kbs),
    )


def check_kbs(store: Store, job: FinetuneJob) -> None:
    """Refuse KBs that are not there, stages that lack KBs, and those without annotated mentions.

    Stages that nobody asked for are left out later where they have nothing to learn from.
    """
    sources, source_kbs, target_kbs = job.stages(), job.source_kbs, job.target_kbs
    names = [*source_kbs, *target_kbs]
    for name in names:
        store.kb(name)
    for name in job.docs:
        check_annotated(store, name)
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
        kbs = KBChoice(tuple(source_kbs), tuple(target_kbs))
        if missing := _unannotated(sources, kbs, mentions):
            raise _nothing_to_learn(sources, missing, kbs)


def make_plan(data: TrainingData, recipe: Recipe, sources: str) -> list[Stage]:
    """The stages of a run; one without anything to learn from is an error."""
    stages = []
    if missing := lacking(data, sources):
        read = ", ".join(f"{one.documents} ({one.train})" for one in data.counts) or "none"
        raise _nothing_to_learn(sources, missing, data.kbs, read)
    letters = sources.replace("O", "")
    if letters:
        # All batches of S come before those of T (Bosch: the order within an epoch).
        groups = tuple(_group(data, letter) for letter in sorted(letters))
        for number, section in enumerate(recipe.rounds(), 1):
            name = letters if number == 1 else f"{letters}-again"
            some = tuple(_some_of(group, section.most_mentions, recipe.seed) for group in groups)
            stages.append(Stage(name, section, some))
    if "O" in sources:
        stages.append(Stage("O", recipe.overlap, (_group(data, "O"),)))
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


def batches_of(stage: Stage, epoch: int, seed: Sequence[int]) -> list[StepItems]:
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
            found.append(StepItems(group, tuple(np.array_split(items, pieces))))
    return found


def lacking(data: TrainingData, sources: str) -> dict[str, str]:
    """The stages that have nothing to learn from, by their letters, and why."""
    annotated = {
        kb: len(_group(data, letter).items)
        for letter in sources.replace("O", "")
        for kb in data.kbs.of(letter)
    }
    found = _unannotated(sources, data.kbs, annotated)
    if "O" in sources and len(data.pairs) < 2:
        names = " and ".join(" or ".join(kbs) for kbs in data.kbs)
        found["O"] = f"needs two accepted overlaps of {names}, and has {len(data.pairs)}"
    return found


def _unannotated(sources: str, kbs: KBChoice, mentions: Mapping[str, int]) -> dict[str, str]:
    """The stages of mentions whose KBs have none that are annotated, and why."""
    return {
        letter: f"there are no annotated mentions of {' or '.join(kbs.of(letter))}"
        for letter in sorted(sources.replace("O", ""))
        if not any(mentions.get(kb) for kb in kbs.of(letter))
    }


def _nothing_to_learn(
    sources: str, missing: Mapping[str, str], kbs: KBChoice, read: str = ""
) -> UsageError:
    """``read``: the documents that were read, with their mentions."""
    hints = []
    if rest := "".join(letter for letter in sources if letter not in missing):
        hints.append(f"Learn from the others alone: --sources {rest}.")
    if mentions := [letter for letter in missing if letter != "O"]:
        kb = kbs.of(mentions[0])[0]
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


def _some_of(group: Group, most: int, seed: int) -> Group:
    """A group with at most so many of its mentions, drawn at random; 0: with all."""
    if not most or len(group.items) <= most:
        return group
    drawn = np.random.default_rng(seed).choice(group.items, most, replace=False)
    return group._replace(items=np.sort(drawn))


def _group(data: TrainingData, letter: str) -> Group:
    """What a stage learns from."""
    if letter == "O":
        return Group("O", data.pool.rows(data.kbs.all), np.arange(len(data.pairs)))
    rows = data.pool.rows(data.kbs.of(letter))
    inside = data.train.within(rows)
    items, names_alone = np.split(inside, [np.searchsorted(inside, data.annotated)])
    return Group("S" if letter == "S" else "T", rows, items, names_alone)
