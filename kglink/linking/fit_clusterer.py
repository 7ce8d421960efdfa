"""Choosing a clusterer's settings on mentions whose meaning is known, or that it does not help.

Of the settings that it offers those are best with which most mentions are answered right. They are
kept only where what is chosen on some documents is better than no help, by more than chance, on
the others. Mentions of the same words change together, so that chance is of surfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kglink.arrays import DoubleArray, IntArray
from kglink.files.atomic import write_atomically
from kglink.linking.fit_probability import is_gain
from kglink.linking.scoring import KeptOfModel, read_kept
from kglink.linking.stages import Stage
from kglink.records import EntityId, OnProgress, Progress, Ranking
from kglink.text.fold import fold as folded

#: Beside a space's versions.
CHOICE_FILE = "clusterer.json"


class ClustererChoice(KeptOfModel):
    """The settings with which a clusterer answers best in a space."""

    clusterer: str
    settings: dict[str, str | int | float | bool]
    helps: bool
    """False: these are the settings with which no mention helps another."""
    mentions: int
    """How many mentions it was chosen on."""
    alone: float
    """The share of them that are answered right without help."""
    helped: float
    """The same with settings that were chosen on other documents."""

    def __str__(self) -> str:
        """What was found, in words."""
        mentions = f"{self.mentions:,} mention{'s' * (self.mentions != 1)}"
        figures = (
            f"of {mentions} {self.alone:.3f} are answered right alone, "
            f"{self.helped:.3f} with what was chosen on other documents"
        )
        if not self.helps:
            return f"each mention is answered alone: others help no more than chance ({figures})"
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"{settings} ({figures})"


@dataclass(frozen=True, slots=True)
class KnownMention:
    """A mention with its candidates, what is right for it, and the part of its document."""

    ranking: Ranking
    gold: frozenset[EntityId]
    fold: int


def choose_settings(
    stage: Stage,
    mentions: Sequence[KnownMention],
    answer: Callable[[Ranking], EntityId | None],
    fingerprint: str,
    progress: OnProgress = lambda _: None,
) -> ClustererChoice:
    """The settings of a clusterer's stage with which most mentions are answered right."""
    offered: list[Mapping[str, str | int | float | bool]] = []
    rows: list[DoubleArray] = []
    for settings, rankings in stage.alternatives([one.ranking for one in mentions]):
        offered.append(settings)
        rows.append(
            np.array([is_right(answer(r), m.gold) for r, m in zip(rankings, mentions, strict=True)])
        )
        progress(Progress("ways of clustering", len(rows)))
    right = np.array(rows)
    # What nobody has judged is no gain and no loss.
    gains = np.nan_to_num(right - right[0])
    folds = np.array([one.fold for one in mentions])
    held_out = gain_elsewhere(gains, folds)
    _, words = np.unique(
        [folded(one.ranking.mention.surface) for one in mentions], return_inverse=True
    )
    helps = is_gain(held_out, words)
    judged = np.isfinite(right[0])
    alone = float(right[0][judged].mean())
    return ClustererChoice(
        fingerprint=fingerprint,
        clusterer=stage.name,
        settings=dict(offered[int(gains.sum(axis=1).argmax())] if helps else offered[0]),
        helps=helps,
        mentions=int(judged.sum()),
        alone=alone,
        helped=alone + float(held_out.sum() / judged.sum()),
    )


def gain_elsewhere(gains: DoubleArray, folds: IntArray) -> DoubleArray:
    """By mention what is gained by the row that is best in the other parts; of equals the first."""
    gained = np.zeros(gains.shape[1])
    for one in np.unique(folds):
        inside = folds == one
        gained[inside] = gains[int(gains[:, ~inside].sum(axis=1).argmax()), inside]
    return gained


def is_right(answer: EntityId | None, gold: frozenset[EntityId]) -> float:
    """1 or 0; not a number where the answer's KB has nothing annotated for a mention of a thing."""
    if answer is None:
        return float(not gold)
    if gold and all(one.kb != answer.kb for one in gold):
        return float("nan")
    return float(answer in gold)


def write_choice(folder: Path, choice: ClustererChoice) -> None:
    """Keep a choice for a space."""
    write_atomically(folder / CHOICE_FILE, choice.model_dump_json(indent=1) + "\n")


def read_choice(folder: Path, clusterer: str, fingerprint: str) -> ClustererChoice | None:
    """What was chosen for a clusterer in a space with this model; None: nothing."""
    default = "the clusterer then has its default settings"
    found = read_kept(ClustererChoice, folder / CHOICE_FILE, fingerprint, default)
    return found if found and found.clusterer == clusterer else None
