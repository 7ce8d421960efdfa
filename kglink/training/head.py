"""The tasks D and R: an encoder gets a head, judged by what was held out.

Each is trained by one process, alone in a run or beside the stages S, T and O.

WORK/              checkpoints and the best epoch so far, until it is done
"""

from __future__ import annotations

import shutil
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from kglink.files.digest import digest_of
from kglink.models.hardware import Hardware, choose_hardware, usable_cores
from kglink.models.head_folder import HeadManifest
from kglink.models.inputs import tokenizer_files
from kglink.models.model_folder import TRAINED, BaseInfo, TowerFiles, tower_sources
from kglink.models.opening import resolve_model
from kglink.models.runtime import TokenEncoder
from kglink.models.settings import Pooling
from kglink.models.source import ModelSource
from kglink.models.towers import load_tower
from kglink.store import Store
from kglink.training.checkpoint import Checkpoints, StageResult, saying_what_is_kept
from kglink.training.job import FinetuneJob, Tell
from kglink.training.loop import Loop, Task, seed_of, threads
from kglink.training.recipe import HeadSection
from kglink.training.run import (
    RunSettings,
    TrainingReport,
    alone,
    new_settings,
    read_report,
    resumed_settings,
    write_report,
)

Section = TypeVar("Section", bound=HeadSection)
Example = TypeVar("Example")
Manifest = TypeVar("Manifest", bound=HeadManifest)
Report = TypeVar("Report", bound="HeadReport[Any]")


class Network(nn.Module):
    """An encoder and its head."""

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
        self.hardware = hardware
        self.tower = load_tower(source, hardware, rows=rows)
        self.head = nn.Linear(self.tower.dim, answers).to(hardware.device)
        self.pooler: nn.Linear | None = None
        """Stands before the head where it is wanted, and is not trained."""
        self.tower.freeze_embeddings(section.freeze_embeddings)
        self.dropout = section.dropout

    @property
    def base(self) -> BaseInfo:
        """The model that it began with."""
        return BaseInfo(name=self.source.name, fingerprint=self.source.fingerprint)

    def encoder(self, pooling: Pooling) -> TokenEncoder:
        """The encoder as it is now."""
        states = self.tower.snapshot(self.hardware)
        return TokenEncoder(self.source.name, states, self.hardware, pooling)

    def files(self) -> tuple[TowerFiles, dict[str, Tensor]]:
        """Encoder and head as they are written."""
        tower = TowerFiles(self.tower.config, self.tower.weights(), tokenizer_files(self.source))
        head = {"weight": self.head.weight, "bias": self.head.bias}
        if self.pooler is not None:
            head |= {f"pooler.dense.{name}": one for name, one in self.pooler.named_parameters()}
        return tower, {name: value.detach().cpu().contiguous() for name, value in head.items()}


@dataclass(frozen=True)
class HeadReport(Generic[Manifest]):
    """What came of a task; ``figure``: how good it is by what was held out."""

    folder: Path
    manifest: Manifest
    steps: int
    figure: float


class HeadTask(Task[Section, Sequence[Example]], Generic[Section, Example, Manifest]):
    """Trains one network; subclasses say what it learns and how it is judged."""

    def __init__(
        self,
        letter: str,
        network: Network,
        section: Section,
        settings: RunSettings,
        examples: Sequence[Example],
        most: int = 0,
    ) -> None:
        """``most``: examples of an epoch; each epoch samples others; 0: all."""
        super().__init__(network, section)
        self.name, self.network, self.settings = letter, network, settings
        self.examples = examples
        self._count = min(len(examples), most or len(examples))
        self.steps_per_epoch = -(-self._count // section.batch)

    @abstractmethod
    def loss(self, batch: Sequence[Example]) -> Tensor:
        """The loss of some examples."""

    @abstractmethod
    def write(self, place: Path, epoch: int) -> Manifest:
        """Write what the network is now; ``epoch``: the one that was kept, from 1."""

    def batches(self, epoch: int) -> list[list[Example]]:
        """The examples of an epoch in an order of their own."""
        order = np.random.default_rng([self.settings.seed, epoch]).permutation(len(self.examples))
        order, size = order[: self._count], self.section.batch
        return [
            [self.examples[row] for row in order[first : first + size]]
            for first in range(0, len(order), size)
        ]

    def size(self, batch: Sequence[Example]) -> int:
        """How many examples a batch has."""
        return len(batch)

    def gradients(self, batch: Sequence[Example], epoch: int, step: int) -> list[float]:
        """The loss of some examples, sent backward."""
        torch.manual_seed(seed_of(self.settings.seed, epoch, step))
        loss = self.loss(batch)
        torch.autograd.backward(loss)
        return [float(loss.detach())]

    def run(
        self, place: Path, data: object, checkpoint_steps: int, tell: Tell
    ) -> tuple[Manifest, int]:
        """Train to the end and write what came of it; returns its manifest and the steps.

        From the beginning, or the last checkpoint, which must be of the same ``data``. Its work
        stays, so that nothing is trained anew if what follows is stopped (`remove_work`).
        """
        work = _work(place)
        identity = {
            "recipe": digest_of([self.section.model_dump(mode="json"), self.settings.seed]),
            "base model": self.network.source.fingerprint,
            "state of the data": digest_of(data),
        }
        loop = Loop(
            *(self.network, [lambda: self], Checkpoints(work, identity), work, tell),
            checkpoint_steps=checkpoint_steps,
            resumed=f"stage {self.name} goes on",
        )
        with threads(self.settings.hardware.threads):
            kept = loop.run().kept
        with saying_what_is_kept(place):
            manifest = self.write(place, kept)
        return manifest, loop.position.total


def _work(place: Path) -> Path:
    return place.with_suffix(".work")


def has_work(place: Path) -> bool:
    """Whether the checkpoints of what lies at ``place`` are there."""
    return _work(place).exists()


def remove_work(place: Path) -> None:
    """Remove the checkpoints of what lies at ``place``, when nothing will ask for them."""
    shutil.rmtree(_work(place), ignore_errors=True)


def run_alone(
    store: Store,
    job: FinetuneJob,
    place: Path,
    letter: str,
    train: Callable[[RunSettings], Report],
) -> tuple[TrainingReport, Report]:
    """A run of one such task, from the beginning or where it stopped.

    ``train`` leaves its work at ``place``.
    """
    began, folder = time.monotonic(), place.parent
    with alone(folder):
        if job.resume:
            settings = resumed_settings(job, folder)
        else:
            hardware = choose_hardware(job.device, job.precision, job.threads or usable_cores())
            settings = new_settings(store, job, folder, letter, hardware)
        trained = train(settings)
        report = read_report(folder)
        if report is None:
            recipe = settings.recipe
            epochs = (recipe.detector if letter == "D" else recipe.reranker).epochs
            stage = StageResult(letter, epochs, trained.manifest.epoch, trained.figure)
            report = TrainingReport(
                folder=folder,
                model=place,
                sources=letter,
                steps=trained.steps,
                seconds=round(time.monotonic() - began, 3),
                stages=(stage._asdict(),),
                recalls=None,
                notes=(),
            )
            write_report(report)
        remove_work(place)
        return report, trained


def source_of(base: str) -> ModelSource:
    """The encoder to begin with; of a trained model the one that reads mentions."""
    folder = Path(base).expanduser()
    if TRAINED.is_there(folder):
        return tower_sources(folder, TRAINED.read(folder))[0]
    return resolve_model(base)
