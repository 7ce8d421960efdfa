"""What a fine-tuning is asked to do, and what it reports while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from kglink.errors import UsageError
from kglink.models.hardware import Precision
from kglink.records import Progress
from kglink.training.recipe import DEFAULT_RECIPE, Recipe
from kglink.training.recipe_files import chosen_recipe

What = Literal["all", "linker", "detector", "reranker"]
#: What ``sources`` may be.
SOURCES = ("S", "T", "O", "TS", "TO", "SO", "TOS")


@dataclass(frozen=True, slots=True)
class FinetuneJob:
    """The options of a fine-tuning. Empty values: those of the recipe, or all that exist."""

    source_kbs: Sequence[str] = ()
    """Empty, and a stage needs one: the KB with the most annotated mentions, else entities."""
    target_kbs: Sequence[str] = ()
    """Empty, and a stage needs one: all KBs that are no source."""
    sources: str = ""
    """Stages: any of S, T, O, TS, TO, SO, TOS; empty: the recipe's, else all that the KBs allow."""
    docs: Sequence[str] = ()
    """KBs whose documents are learnt from; empty: all."""
    recipe: Recipe | str | Path | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Values that replace those of the recipe, nested as in its file."""
    run: str = ""
    """Name of the run; empty: the recipe's name and a number."""
    resume: bool = False
    """Go on with a run; values that are given must be those that it began with."""
    space: str = ""
    """The space that gets the model; empty: the workspace's."""
    publish: bool | None = None
    """Whether the space is published: None: if it answers no worse than the one before; True:
    always; False: never."""
    device: str = "auto"
    precision: Precision = "auto"
    threads: int = 0
    """0: all cores, shared by the processes of the run."""
    checkpoint_steps: int = 500
    """A checkpoint after this number of steps; there is one after each epoch in any case."""
    curve_steps: int = 10
    """A line of the curve, and news of the loss, after this number of steps."""
    what: What = "all"
    """What is trained: the linker's model, the detector, or both in one run; or the reranker."""

    def __post_init__(self) -> None:
        if self.what not in get_args(What):
            there = ", ".join(get_args(What))
            raise UsageError(f"unknown what = {self.what!r}", hint=f"There is: {there}.")
        steps = (self.checkpoint_steps, self.curve_steps)
        if not all(isinstance(one, int) and one >= 1 for one in steps):
            hint = "For fewer give a large number: each epoch ends with both in any case."
            raise UsageError("checkpoint_steps and curve_steps are at least 1", hint=hint)

    @property
    def learns_pairs(self) -> bool:
        """Whether it has the stages S, T and O."""
        return self.what in ("all", "linker")

    def chosen_recipe(self) -> Recipe:
        """The recipe, with the changes applied."""
        return chosen_recipe(self.recipe or DEFAULT_RECIPE, self.changes)

    def stages(self) -> str:
        """The stages in the papers' spelling, such as ``TOS``."""
        both = "TOS" if self.source_kbs and self.target_kbs else ""
        all_allowed = both or ("S" if self.source_kbs else "T")
        return read_sources(self.sources or self.chosen_recipe().sources or all_allowed)


def read_sources(text: str) -> str:
    """Stages in the papers' spelling, whatever the order and case of the letters."""
    letters = sorted(text.upper().replace(",", "").replace("+", ""))
    for known in SOURCES:
        if sorted(known) == letters:
            return known
    raise UsageError(
        f"unknown sources {text!r}",
        hint=f"There is: {', '.join(SOURCES)}. S: mentions of the source KBs, T: of the target "
        "KBs, O: overlaps between them.",
    )


class Note(NamedTuple):
    """A message for the user."""

    text: str


class Planned(NamedTuple):
    """The plan of a run: its stages and the size of its groups S, T and O."""

    base: str
    stages: tuple[tuple[str, int], ...]
    """Stage and steps."""
    groups: tuple[tuple[str, int], ...]
    """Letter and size: mentions, or overlaps."""
    valid: int
    """Mentions that epochs are compared by."""
    device: str
    precision: str
    threads: int
    processes: int


class StepNews(NamedTuple):
    """A step was done."""

    stage: str
    epoch: int
    epochs: int
    step: int
    """Steps of the stage that are done."""
    steps: int
    loss: float
    rate: float
    pairs_per_second: float
    """Mentions, or overlaps, since the stage started or resumed."""
    seconds_left: float
    """Of the stage, at this pace, without mining and validation."""


class EpochNews(NamedTuple):
    """An epoch was done and judged; ``seconds`` includes ``mining`` and ``validation``."""

    stage: str
    epoch: int
    """From 1; 0: the model before the first step."""
    epochs: int
    loss: float
    seconds: float
    mining: float
    validation: float
    figures: Mapping[str, float]
    """How good it is by what was held back, such as ``{"R@1": .41}``; empty: nobody knows."""
    is_best: bool


News = Note | Progress | Planned | StepNews | EpochNews
Tell = Callable[[News], None]
