"""What a fine-tuning is told, and what it tells while it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kglink.records import Progress
from kglink.training.validation import Recalls


class Note(NamedTuple):
    """Something that a person should read."""

    text: str


class Planned(NamedTuple):
    """What will be learnt: the stages with what each of their groups (S, T, O) has and sees."""

    base: str
    stages: tuple[tuple[str, int], ...]
    """Stage and steps."""
    groups: tuple[tuple[str, int], ...]
    """Letter and pairs: mentions with their golds, or overlaps."""
    valid: int
    """Mentions that epochs are judged by."""
    device: str
    precision: str
    threads: int
    processes: int


class BeforeNews(NamedTuple):
    """What the model finds before it has learnt anything here."""

    recalls: Recalls
    seconds: float


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
    """Mentions, or overlap pairs, since the stage began or went on."""
    seconds_left: float
    """Of the stage, at this pace; mining and validation come on top."""


class EpochNews(NamedTuple):
    """An epoch was done; ``seconds`` are all of it, ``mining`` and ``validation`` among them."""

    stage: str
    epoch: int
    epochs: int
    loss: float
    seconds: float
    mining: float
    validation: float
    recalls: Recalls | None
    is_best: bool


News = Note | Progress | Planned | BeforeNews | StepNews | EpochNews
Tell = Callable[[News], None]
