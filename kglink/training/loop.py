"""The trainer: one loop for all tasks, from wherever a run is to its end.

A task says what is learnt: the batches of an epoch, the gradients of a batch, how an epoch is
judged. The loop does the rest: steps, schedule, clipping, checkpoints, the best epoch, the curve.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from kglink.errors import TrainingError
from kglink.files.atomic import atomic_path
from kglink.models.transformation import Ascent
from kglink.training.checkpoint import (
    Checkpoints,
    Position,
    StageResult,
    load_parameters,
    saying_what_is_kept,
    write_tensors,
)
from kglink.training.job import EpochNews, Note, StepNews, Tell
from kglink.training.recipe import DescentSection
from kglink.training.run import Curve

BEST = "best.safetensors"
#: Steps whose mean loss is reported where no curve is written.
_RECENT = 20

Section = TypeVar("Section", bound=DescentSection)
Items = TypeVar("Items")


class Done(NamedTuple):
    """The result of a step."""

    loss: float
    rate: float
    views: tuple[float, ...] = ()
    """The loss as it is (L), and as the transformation makes it (L'), where both are learnt."""


class EpochFigures(NamedTuple):
    """How an epoch is judged; nothing is known where nothing was held back."""

    figure: float | None = None
    """Epochs are compared by it: more is better."""
    figures: Mapping[str, float] = {}
    """What the user sees."""
    line: Mapping[str, Any] = {}
    """What the curve says."""


class Task(ABC, Generic[Section, Items]):
    """Something to learn: an optimiser and a schedule of its own; each step has its own seed."""

    name: str
    steps_per_epoch: int
    patience = 0
    """Epochs without a better one after which it ends; 0: never."""
    keeps_best = True
    """Whether the best epoch is kept; else the last one is."""
    ascent: Ascent | None = None
    """Moves a transformation against the network."""

    def __init__(self, network: nn.Module, section: Section) -> None:
        """All that wants a gradient is trained, but for A; biases and norms do not decay."""
        self._network = network
        self.section = section
        decaying: list[nn.Parameter] = []
        others: list[nn.Parameter] = []  # biases and norms
        for name, parameter in network.named_parameters():
            if parameter.requires_grad and not name.startswith("transformation."):
                decays = parameter.ndim > 1 and not name.endswith("bias")
                (decaying if decays else others).append(parameter)
        groups = [
            {"params": decaying, "weight_decay": section.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=section.learning_rate)
        self._theta = decaying + others

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[Items]:
        """The batches of an epoch."""

    @abstractmethod
    def size(self, batch: Items) -> int:
        """How many examples a batch has."""

    @abstractmethod
    def gradients(self, batch: Items, epoch: int, step: int) -> list[float]:
        """Add the gradients of the losses of a batch to the parameters; returns the losses."""

    @abstractmethod
    def judged(self) -> EpochFigures:
        """How good the network is now, by what was held back."""

    def prepare(self, epoch: int) -> None:
        """What is done before the steps of an epoch."""

    def before(self) -> EpochFigures | None:
        """How good the network is before the first step, if that is told."""
        return None

    def end(self) -> None:
        """What is done when the epoch that is kept is loaded."""

    def stepped(self) -> None:
        """What is done after a step."""

    def shown(self, batch: Items) -> str:
        """What a message says of a batch."""
        return ""

    def too_large(self, begin: str) -> TrainingError:
        """Advice where a step does not fit into memory."""
        return TrainingError(
            f"a step of {self.section.batch} does not fit into memory",
            hint=f"{begin} a smaller batch, or fewer tokens.",
        )

    @property
    def steps(self) -> int:
        """Steps of all epochs."""
        return self.section.epochs * self.steps_per_epoch

    def step(self, batch: Items, epoch: int, step: int) -> Done:
        """Learn from one batch."""
        section = self.section
        self._network.train()
        views = self.gradients(batch, epoch, step)
        loss, norm = sum(views), self._clip(section.clip)
        if not (np.isfinite(loss) and bool(torch.isfinite(norm))):
            what = f"the loss is {loss}" if not np.isfinite(loss) else "a gradient is not finite"
            raise TrainingError(
                f"stage {self.name}, epoch {epoch + 1}, step {step + 1}: {what}{self.shown(batch)}",
                hint="If chance was to blame (memory, a GPU), --resume goes on from the last "
                "checkpoint, or from the beginning where there is none. Otherwise begin a new run "
                "with a lower learning_rate, or with encoder.precision = fp32. Look at the texts "
                "of this batch, and at the objective and the scorer where they are your own.",
            )
        rate = rate_at(epoch * self.steps_per_epoch + step, self.steps, section)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.stepped()
        return Done(loss, rate, tuple(views))

    def _clip(self, longest: float) -> Tensor:
        norm: Tensor = nn.utils.clip_grad_norm_(self._theta, longest or torch.inf)
        return norm


def rate_at(step: int, steps: int, section: DescentSection) -> float:
    """The learning rate of step ``step`` (from 0) of ``steps``."""
    climbing = round(section.warm_up * steps)
    if step < climbing:
        return section.learning_rate * (step + 1) / climbing
    if section.decay == "none":
        return section.learning_rate
    return section.learning_rate * (steps - step) / (steps - climbing)


def seed_of(*facts: int) -> int:
    """A seed for torch, made of the numbers of a place in a run."""
    return int(np.random.SeedSequence(facts).generate_state(1, np.uint64)[0] >> 1)


@dataclass
class Loop:
    """Does the tasks of a run, one after the other; each is made when its turn comes."""

    network: nn.Module
    tasks: Sequence[Callable[[], Task[Any, Any]]]
    checkpoints: Checkpoints
    folder: Path
    """Where the best epoch lies."""
    tell: Tell
    checkpoint_steps: int
    curve: Curve | None = None
    curve_steps: int = 1
    is_first: bool = True
    """Whether this is the process that writes."""
    wait: Callable[[], None] = lambda: None
    """Waits for the other processes."""
    resumed: str = "going on"
    position: Position = field(default_factory=Position)

    def run(self) -> StageResult:
        """Train from the last checkpoint, or from the beginning, to the end; the last result."""
        resume = self.checkpoints.exists()
        if resume:
            self.position = self.checkpoints.position()
            self.tell(Note(f"{self.resumed} after step {self.position.total:,}"))
        if self.is_first and self.curve is not None:
            self.curve.begin(self.position.total)
        while self.position.stage < len(self.tasks):
            self._do(self.tasks[self.position.stage], resume=resume)
            resume = False
        return self.position.results[-1]

    def _do(self, make: Callable[[], Task[Any, Any]], *, resume: bool) -> None:
        at_its_begin = (self.position.epoch, self.position.step) == (0, 0)
        if resume and at_its_begin:  # there is no optimiser yet, and no A
            self.checkpoints.load_model(self.network)
        task = make()
        if resume and not at_its_begin:
            self.checkpoints.load_model(self.network)
            self.checkpoints.load_optimiser(self.network, task.optimiser, task.ascent)
        while not self._is_over(task):
            self._epoch(task)
            self._save(task)
        at = self.position
        kept = at.epoch
        if at.best_epoch >= 0:
            self.wait()
            load_parameters(self.folder / BEST, self.network)
            kept = at.best_epoch + 1
        results = (*at.results, StageResult(task.name, at.epoch, kept, at.best))
        self.position = Position(stage=at.stage + 1, total=at.total, results=results)
        task.end()
        if self.position.stage < len(self.tasks):
            self._save(None)

    def _is_over(self, task: Task[Any, Any]) -> bool:
        at = self.position
        waited = at.epoch - 1 - at.best_epoch
        is_stuck = task.patience and at.best is not None and waited >= task.patience
        return bool(is_stuck or at.epoch >= task.section.epochs)

    def _epoch(self, task: Task[Any, Any]) -> None:
        began = time.monotonic()
        task.prepare(self.position.epoch)
        prepared = time.monotonic()
        mining = prepared - began
        if not self.position.total and (known := task.before()):
            self._tell_epoch(task, 0, known, time.monotonic() - prepared)
        # What the network knew before is no part of its first epoch.
        began += time.monotonic() - prepared
        self._steps(task)
        trained, at = time.monotonic(), self.position
        judged = task.judged()
        better = judged.figure is not None and (at.best is None or judged.figure > at.best)
        if is_best := better and task.keeps_best:
            self.position = replace(at, best=judged.figure, best_epoch=at.epoch)
            self._keep()
        now = time.monotonic()
        # Without a curve only the total time is reported.
        spent = (mining, now - trained) if self.curve else (0.0, 0.0)
        self._tell_epoch(task, at.epoch + 1, judged, now - began, *spent, is_best=is_best)
        self.position = replace(self.position, epoch=at.epoch + 1, step=0, epoch_loss=0.0)

    def _steps(self, task: Task[Any, Any]) -> None:
        left = task.batches(self.position.epoch)[self.position.step :]
        begun, seen = time.monotonic(), 0
        for number, batch in enumerate(left, 1):
            at = self.position
            goes_on = "The last checkpoint is good. Begin a run with"
            with advising(task.too_large(goes_on if at.total else "Begin again with")):
                done = task.step(batch, at.epoch, at.step)
            self.position = at.stepped(done.loss)
            seen += task.size(batch)
            self._report(task, done, seen, (time.monotonic() - begun) / number, number)
            if number < len(left) and self.position.total % self.checkpoint_steps == 0:
                self._save(task)

    def _report(
        self, task: Task[Any, Any], done: Done, seen: int, pace: float, number: int
    ) -> None:
        """Tell of a step; ``seen``: examples of ``number`` steps, of ``pace`` seconds each."""
        at = self.position
        if at.total % self.curve_steps:
            return
        loss = sum(at.losses) / len(at.losses)
        self.position = replace(at, losses=() if self.curve else at.losses[-_RECENT:])
        steps = at.epoch * task.steps_per_epoch + at.step
        said: dict[str, Any] = {"step": steps, "loss": loss, "rate": done.rate}
        if task.ascent is not None:
            both = done.views if len(done.views) > 1 else ()
            losses = dict(zip(("L", "L_prime"), both, strict=False))
            said["adversary"] = {**losses, **task.ascent.measures()}
        self._line(task, at.epoch + 1, said)
        self.tell(
            StepNews(
                *(task.name, at.epoch + 1, task.section.epochs, steps, task.steps),
                *(loss, done.rate, seen / max(1e-9, pace * number), pace * (task.steps - steps)),
            )
        )

    def _tell_epoch(
        self,
        task: Task[Any, Any],
        epoch: int,
        judged: EpochFigures,
        seconds: float,
        mining: float = 0.0,
        validation: float = 0.0,
        *,
        is_best: bool = False,
    ) -> None:
        """Tell how an epoch was judged; epoch 0: before the first step."""
        at = self.position
        loss = at.epoch_loss / max(1, at.step)
        if judged.line:
            end = {"epoch_loss": loss, "best": is_best} if epoch else {}
            self._line(task, epoch, {**judged.line, **end})
        self.tell(
            EpochNews(
                *(task.name, epoch, task.section.epochs, loss, seconds),
                *(mining, validation, judged.figures, is_best),
            )
        )

    def _keep(self) -> None:
        """Write the best weights so far."""
        path = self.folder / BEST
        if self.is_first:
            path.parent.mkdir(parents=True, exist_ok=True)
            with saying_what_is_kept(path), atomic_path(path) as draft:
                write_tensors(draft, dict(self.network.named_parameters()))

    def _save(self, task: Task[Any, Any] | None) -> None:
        if self.is_first:
            optimiser, ascent = (task.optimiser, task.ascent) if task else (None, None)
            self.checkpoints.save(self.position, self.network, optimiser, ascent)

    def _line(self, task: Task[Any, Any], epoch: int, said: Mapping[str, Any]) -> None:
        if self.is_first and self.curve is not None:
            total = self.position.total
            self.curve.add({"total": total, "stage": task.name, "epoch": epoch, **said})


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Limit torch to a number of cores: more would wait for each other in every product."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


#: Words of torch's out-of-memory errors on a CPU.
_ON_CPU = ("can't allocate memory", "not enough memory")


@contextlib.contextmanager
def advising(advice: TrainingError) -> Iterator[None]:
    """Turn out-of-memory errors into this advice."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise advice from error
    except RuntimeError as error:
        if any(words in str(error) for words in _ON_CPU):
            raise advice from error
        raise
