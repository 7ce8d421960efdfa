"""Training an encoder with a head: epochs of steps, judged by what was held out, the best kept.

WORK/              checkpoints and the best epoch so far, until it is done
"""

from __future__ import annotations

import math
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from kglink.errors import TrainingError, UsageError
from kglink.files.atomic import atomic_path
from kglink.models.hardware import Hardware, choose_hardware, usable_cores
from kglink.models.inputs import tokenizer_files
from kglink.models.model_folder import (
    TowerFiles,
    is_model_folder,
    read_manifest,
    tower_sources,
)
from kglink.models.opening import resolve_model
from kglink.models.source import ModelSource
from kglink.models.towers import load_tower
from kglink.store import Store
from kglink.training.checkpoint import (
    Checkpoints,
    Position,
    load_parameters,
    saying_what_is_kept,
    write_tensors,
)
from kglink.training.job import FinetuneJob, News, Note, StepNews, Tell
from kglink.training.recipe import DEFAULT_RECIPE, HeadSection, Recipe
from kglink.training.run import SETTINGS, RunSettings, TrainingReport, write_report
from kglink.training.step import rate_at

_BEST = "best.safetensors"

Section = TypeVar("Section", bound=HeadSection)
Example = TypeVar("Example")


@dataclass(frozen=True)  # no slots: typing writes to a generic value when it is made
class HeadJob(Generic[Section]):
    """What the training of a head is told."""

    section: Section
    base: str
    seed: int
    hardware: Hardware
    checkpoint_steps: int
    libraries: dict[str, str] = field(default_factory=dict)


class Judged(NamedTuple):
    """What the held-out documents say of an epoch."""

    figure: float
    news: Callable[[int, float, float, bool], News]
    """What is told of the epoch: its number from 1, loss, seconds, and whether it is the best."""


class Network(nn.Module):
    """An encoder and its head; biases and norms do not decay."""

    def __init__(
        self,
        source: ModelSource,
        answers: int,
        hardware: Hardware,
        section: HeadSection,
        rows: int = 0,
    ) -> None:
        super().__init__()
        self.source = source
        self.tower = load_tower(source, hardware, rows=rows)
        self.head = nn.Linear(self.tower.dim, answers).to(hardware.device)
        self.pooler: nn.Linear | None = None
        """Stands before the head where it is wanted, and is not trained."""
        self.tower.freeze_embeddings(section.freeze_embeddings)
        self.dropout = section.dropout

    def groups(self, weight_decay: float) -> list[dict[str, object]]:
        """The trained parameters."""
        trained = [one for one in self.parameters() if one.requires_grad]
        return [
            {"params": [one for one in trained if one.ndim > 1], "weight_decay": weight_decay},
            {"params": [one for one in trained if one.ndim < 2], "weight_decay": 0.0},
        ]

    def files(self) -> tuple[TowerFiles, dict[str, Tensor]]:
        """Encoder and head as they are written."""
        tower = TowerFiles(self.tower.config, self.tower.weights(), tokenizer_files(self.source))
        head = {"weight": self.head.weight, "bias": self.head.bias}
        if self.pooler is not None:
            head |= {f"pooler.dense.{name}": one for name, one in self.pooler.named_parameters()}
        return tower, {name: value.detach().cpu().contiguous() for name, value in head.items()}


class HeadTraining(ABC, Generic[Section, Example]):
    """Trains one network; what it learns and how it is judged is said by those that inherit."""

    stage: str
    """Its letter."""

    def __init__(
        self,
        network: Network,
        examples: Sequence[Example],
        job: HeadJob[Section],
        work: Path,
        identity: dict[str, str],
        tell: Tell,
    ) -> None:
        """``identity`` is what must be the same where a run is resumed."""
        self.network = network
        self.job = job
        self.examples = examples
        self._work = work
        self._tell = tell
        groups = network.groups(job.section.weight_decay)
        self._optimiser = torch.optim.AdamW(groups, lr=job.section.learning_rate)
        self._checkpoints = Checkpoints(work, identity)
        self.at = Position()

    @abstractmethod
    def loss(self, batch: Sequence[Example]) -> Tensor:
        """The loss of some examples."""

    @abstractmethod
    def judged(self) -> Judged:
        """What the held-out documents say of the network as it is now."""

    def run(self) -> None:
        """Train to the end; the network is then that of the best epoch."""
        section = self.job.section
        before = torch.get_num_threads()
        torch.set_num_threads(self.job.hardware.threads)
        try:
            if self._checkpoints.exists():
                self.at = self._checkpoints.position()
                self._checkpoints.load_model(self.network)
                self._checkpoints.load_optimiser(self.network, self._optimiser, None)
                self._tell(Note(f"stage {self.stage} goes on after step {self.at.total:,}"))
            while self.at.epoch < section.epochs:
                self._epoch()
                self._save()
            load_parameters(self._work / _BEST, self.network)
        finally:
            torch.set_num_threads(before)

    def clear(self) -> None:
        """Remove what was kept to go on from."""
        shutil.rmtree(self._work, ignore_errors=True)

    def _epoch(self) -> None:
        job, began = self.job, time.monotonic()
        batches = self._batches(self.at.epoch)
        left = batches[self.at.step :]
        for number, batch in enumerate(left, 1):
            rate = self._step(batch)
            if number < len(left) and self.at.total % job.checkpoint_steps == 0:
                self._save()
            self._report(rate, (time.monotonic() - began) / number)
        loss = self.at.epoch_loss / max(1, self.at.step)
        found = self.judged()
        is_best = self.at.best is None or found.figure > self.at.best
        if is_best:
            self.at = replace(self.at, best=found.figure, best_epoch=self.at.epoch)
            self._keep()
        self._tell(found.news(self.at.epoch + 1, loss, time.monotonic() - began, is_best))
        self.at = self.at.next_epoch()

    def _step(self, batch: Sequence[Example]) -> float:
        """Learn from some examples; returns the learning rate. Each step has a seed of its own."""
        at, section, network = self.at, self.job.section, self.network
        facts = [self.job.seed, at.epoch, at.step]
        torch.manual_seed(int(np.random.SeedSequence(facts).generate_state(1, np.uint64)[0] >> 1))
        network.train()
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
        trained = [one for group in self._optimiser.param_groups for one in group["params"]]
        norm = nn.utils.clip_grad_norm_(trained, section.clip or torch.inf)
        if not bool(torch.isfinite(norm)):
            raise TrainingError(
                f"stage {self.stage}, epoch {at.epoch + 1}, step {at.step + 1}: a gradient is not "
                "finite",
                hint="Begin a new run with a lower learning_rate, or encoder.precision = fp32.",
            )
        rate = rate_at(at.total, self._steps, section)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self.at = at.stepped(float(loss.detach()))
        return rate

    def _report(self, rate: float, pace: float) -> None:
        at, section = self.at, self.job.section
        loss = sum(at.losses) / len(at.losses)
        self.at = replace(at, losses=at.losses[-20:])
        self._tell(
            StepNews(
                stage=self.stage,
                epoch=at.epoch + 1,
                epochs=section.epochs,
                step=at.total,
                steps=self._steps,
                loss=loss,
                rate=rate,
                pairs_per_second=section.batch / pace,
                seconds_left=pace * (self._steps - at.total),
            )
        )

    @property
    def _steps(self) -> int:
        section = self.job.section
        return math.ceil(self.examples_of_epoch / section.batch) * section.epochs

    @property
    def examples_of_epoch(self) -> int:
        """How many examples an epoch has; of more, each epoch has others."""
        return len(self.examples)

    def _batches(self, epoch: int) -> list[list[Example]]:
        order = np.random.default_rng([self.job.seed, epoch]).permutation(len(self.examples))
        order, size = order[: self.examples_of_epoch], self.job.section.batch
        return [
            [self.examples[row] for row in order[first : first + size]]
            for first in range(0, len(order), size)
        ]

    def _save(self) -> None:
        self._checkpoints.save(self.at, self.network, self._optimiser, None)

    def _keep(self) -> None:
        """Write the best weights so far."""
        path = self._work / _BEST
        path.parent.mkdir(parents=True, exist_ok=True)
        with saying_what_is_kept(path), atomic_path(path) as draft:
            write_tensors(draft, dict(self.network.named_parameters()))


class Stage(NamedTuple):
    """A stage that was trained by itself."""

    letter: str
    epochs: int
    kept: int


def new_settings(store: Store, job: FinetuneJob, folder: Path, letter: str) -> RunSettings:
    """What a run of one such stage alone is told; nothing is written yet."""
    if (folder / SETTINGS).exists():
        raise UsageError(
            f"{folder}: there is a run already",
            hint="Go on with it (--resume), give another name, or delete the folder.",
        )
    for name in job.docs:
        store.kb(name)
    return RunSettings(
        recipe=job.chosen_recipe(),
        recipe_name="" if isinstance(job.recipe, Recipe) else str(job.recipe or DEFAULT_RECIPE),
        sources=letter,
        source_kbs=(),
        target_kbs=(),
        docs=tuple(job.docs),
        hardware=choose_hardware(job.device, job.precision, job.threads or usable_cores()),
    )


def finished(
    folder: Path, model: Path, stage: Stage, figure: float, steps: int, began: float
) -> TrainingReport:
    """Write the report of a run of one such stage."""
    report = TrainingReport(
        folder=folder,
        model=model,
        sources=stage.letter,
        steps=steps,
        seconds=round(time.monotonic() - began, 3),
        stages=(
            {
                "name": stage.letter,
                "epochs": stage.epochs,
                "kept": stage.kept,
                "figure": figure,
            },
        ),
        recalls=None,
        notes=(),
    )
    write_report(report)
    return report


def source_of(base: str) -> ModelSource:
    """The encoder to begin with; of a trained model the one that reads mentions."""
    folder = Path(base).expanduser()
    if is_model_folder(folder):
        return tower_sources(folder, read_manifest(folder))[0]
    return resolve_model(base)
