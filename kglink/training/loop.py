"""The loop: stages, epochs and steps, from wherever the run is to its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch

from kglink.errors import TrainingError
from kglink.files.atomic import atomic_path
from kglink.models.hardware import Hardware
from kglink.training.checkpoint import (
    Checkpoints,
    Position,
    StageResult,
    load_parameters,
    saying_what_is_kept,
    write_tensors,
)
from kglink.training.encoded_pool import EncodedPool
from kglink.training.job import BeforeNews, EpochNews, FinetuneJob, Note, StepNews, Tell
from kglink.training.recipe import OverlapSection, SelectionSection, StageSection
from kglink.training.run import Curve
from kglink.training.stages import Batch, Stage, batches_of
from kglink.training.step import Done, Tools, Trainer
from kglink.training.validation import Recalls, judged_mentions, searched_rows, validate

_BEST = "best.safetensors"


@dataclass
class Loop:
    """Runs the stages of a run, one after the other, and keeps what they come to."""

    tools: Tools
    stages: Sequence[Stage]
    selection: SelectionSection
    hardware: Hardware
    job: FinetuneJob
    folder: Path
    checkpoints: Checkpoints
    tell: Tell
    position: Position = field(default_factory=Position)
    _encoded: EncodedPool | None = None

    def run(self, *, resume: bool) -> tuple[StageResult, ...]:
        """Train from the last checkpoint, or from the beginning, to the end."""
        if resume:
            self.position = self.checkpoints.position()
            self.tell(Note(f"going on after step {self.position.total:,}"))
        if self._is_first:
            Curve(self.folder).begin(self.position.total)
        while self.position.stage < len(self.stages):
            self._stage(self.stages[self.position.stage], resume=resume)
            resume = False
        return self.position.results

    @cached_property
    def _judged(self) -> int:
        """How many mentions epochs are compared by."""
        return len(judged_mentions(self.tools.data, self.selection))

    @property
    def _is_first(self) -> bool:
        return self.tools.team.is_first

    def _stage(self, stage: Stage, *, resume: bool) -> None:
        at_its_begin = (self.position.epoch, self.position.step) == (0, 0)
        if resume and at_its_begin:  # there is no optimiser yet, and no A
            self.checkpoints.load_model(self.tools.model)
        trainer = Trainer(self.tools, stage, self.position.stage)
        if resume and not at_its_begin:
            self.checkpoints.load_model(self.tools.model)
            self.checkpoints.load_optimiser(self.tools.model, trainer.optimiser, trainer.ascent)
        while not self._is_over(stage):
            self._epoch(stage, trainer)
            self._checkpoint(trainer)
        self._finish(stage)

    def _is_over(self, stage: Stage) -> bool:
        at, patience = self.position, self.selection.patience
        waited = at.epoch - 1 - at.best_epoch
        if patience and at.best is not None and waited >= patience:
            return True
        return at.epoch >= stage.section.epochs

    def _chooses(self, stage: Stage) -> bool:
        """Whether the best epoch is kept; stage O keeps the last unless told otherwise."""
        section = stage.section
        wanted = isinstance(section, StageSection) or section.keep == "best"
        return wanted and self._judged > 0

    def _epoch(self, stage: Stage, trainer: Trainer) -> None:
        began = time.monotonic()
        self._mine(trainer)
        mining = time.monotonic() - began
        # What the model knew before is no part of its first epoch, but the pool is encoded now.
        began += self._judge_before(stage)
        self._steps(stage, trainer)
        self._evaluate(stage, began, mining, time.monotonic())

    def _judge_before(self, stage: Stage) -> float:
        """Validate the model before training; returns the seconds."""
        began = time.monotonic()
        if self.position.total or not self._is_first or not self._judged:
            return 0.0
        recalls = self._validate()
        seconds = time.monotonic() - began
        self._line({"total": 0, "stage": stage.name, "epoch": 0, **recalls.as_json()})
        self.tell(BeforeNews(recalls, seconds))
        return seconds

    def _mine(self, trainer: Trainer) -> None:
        """Search hard negatives if this epoch needs new ones; a resumed run finds them on disk."""
        files = trainer.mined_files(self.folder / "data", self.position.epoch)
        if self._is_first and not all(path.is_file() for path in files.values()):
            for old in (self.folder / "data").glob("negatives-*.npy"):
                old.unlink()
            with advising(advice_for_searches("the search for hard negatives")):
                for note in trainer.mine(self._pool(), files, self.position.epoch, self.tell):
                    self.tell(Note(note))
        self.tools.team.wait()
        trainer.open_mined(files)

    def _steps(self, stage: Stage, trainer: Trainer) -> None:
        batches = batches_of(stage, self.position.epoch, trainer.order_seed)
        self._encoded = None if self.position.step < len(batches) else self._encoded
        begun, seen = time.monotonic(), 0
        left = batches[self.position.step :]
        for number, batch in enumerate(left, 1):
            done = self._step(stage, trainer, batch)
            seen += done.texts
            pace = (time.monotonic() - begun) / number
            self._report(stage, trainer, done, seen / max(1e-9, pace * number), pace)
            if number < len(left) and self.position.total % self.job.checkpoint_steps == 0:
                self._checkpoint(trainer)

    def _step(self, stage: Stage, trainer: Trainer, batch: Batch) -> Done:
        at = self.position
        with advising(advice_for_steps(stage.section, trainer.most_texts, at.total)):
            done = trainer.step(batch, at.epoch, at.step)
        self.position = at.stepped(done.loss)
        return done

    def _report(
        self, stage: Stage, trainer: Trainer, done: Done, pairs_per_second: float, pace: float
    ) -> None:
        at, section = self.position, stage.section
        if at.total % self.job.curve_steps:
            return
        loss = sum(at.losses) / len(at.losses)
        self.position = replace(at, losses=())
        steps = at.epoch * stage.steps_per_epoch + at.step
        left = pace * (stage.steps - steps)
        line = {"total": at.total, "stage": stage.name, "epoch": at.epoch + 1, "step": steps}
        self._line({**line, "loss": loss, "rate": done.rate, **self._adversary(trainer, done)})
        self.tell(
            StepNews(
                *(stage.name, at.epoch + 1, section.epochs, steps, stage.steps),
                *(loss, done.rate, pairs_per_second, left),
            )
        )

    @staticmethod
    def _adversary(trainer: Trainer, done: Done) -> dict[str, object]:
        """What the curve says of A: both losses of the step, its norms, how far it moves states."""
        if trainer.ascent is None:
            return {}
        losses = dict(zip(("L", "L_prime"), done.views, strict=False))
        return {"adversary": {**losses, **trainer.ascent.facts()}}

    def _evaluate(self, stage: Stage, began: float, mining: float, trained: float) -> None:
        """Validate the epoch, keep it if it is the best, and report it."""
        at = self.position
        figure, recalls = self._figure()
        better = figure is not None and (at.best is None or figure > at.best)
        is_best = better and self._chooses(stage)
        if is_best:
            self.position = at = replace(at, best=figure, best_epoch=at.epoch)
            self._keep()
        now = time.monotonic()
        loss = at.epoch_loss / max(1, at.step)
        if recalls is not None:
            line = {"total": at.total, "stage": stage.name, "epoch": at.epoch + 1}
            self._line({**line, **recalls.as_json(), "epoch_loss": loss, "best": is_best})
        self.tell(
            EpochNews(
                stage=stage.name,
                epoch=at.epoch + 1,
                epochs=stage.section.epochs,
                loss=loss,
                seconds=now - began,
                mining=mining,
                validation=now - trained,
                recalls=recalls,
                is_best=is_best,
            )
        )
        self.position = at.next_epoch()

    def _figure(self) -> tuple[float | None, Recalls | None]:
        """The recall that epochs are compared by, computed by the first process and told to all."""
        if not self._judged:
            return None, None
        values = recalls = None
        if self._is_first:
            recalls = self._validate()
            values = [recalls.chosen(self.selection)]
        return self.tools.team.agree(values, 1)[0], recalls

    def _validate(self) -> Recalls:
        with advising(advice_for_searches("judging the model")):
            pool = self._sampled() if self.selection.most_entities else self._pool()
            return validate(self.tools.data, pool, self.selection, self.tell)

    def _sampled(self) -> EncodedPool:
        """The entities that validation searches, encoded with the current model."""
        data = self.tools.data
        rows = searched_rows(data, self.selection)
        pool = EncodedPool(
            self.tools.model, self.tools.scorer, self.hardware, self.folder / "data" / "searched"
        )
        pool.encode(data.pool.tokens, self.tell, rows.tolist())
        return pool

    def _pool(self) -> EncodedPool:
        """The pool, encoded with the current model; validation and mining share it."""
        if self._encoded is None:
            tools = self.tools
            pool = EncodedPool(tools.model, tools.scorer, self.hardware, self.folder / "data")
            pool.encode(tools.data.pool.tokens, self.tell)
            self._encoded = pool
        return self._encoded

    def _finish(self, stage: Stage) -> None:
        """Load the best epoch, if one was chosen, and begin the next stage."""
        at = self.position
        kept = at.epoch
        if at.best_epoch >= 0:
            self.tools.team.wait()
            load_parameters(self.folder / _BEST, self.tools.model)
            kept = at.best_epoch + 1
            self._encoded = None
        self.position = at.next_stage(StageResult(stage.name, at.epoch, kept, at.best))
        self.tools.model.transformation = None
        if self.position.stage < len(self.stages):
            self._checkpoint(None)

    def _keep(self) -> None:
        """Write the best weights so far."""
        if not self._is_first:
            return
        path = self.folder / _BEST
        with saying_what_is_kept(path), atomic_path(path) as draft:
            write_tensors(draft, dict(self.tools.model.named_parameters()))

    def _checkpoint(self, trainer: Trainer | None) -> None:
        if not self._is_first:
            return
        optimiser, ascent = (trainer.optimiser, trainer.ascent) if trainer else (None, None)
        self.checkpoints.save(self.position, self.tools.model, optimiser, ascent)

    def _line(self, line: dict[str, object]) -> None:
        if self._is_first:
            Curve(self.folder).add(line)


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


def advice_for_steps(
    section: StageSection | OverlapSection, texts: int, done: int
) -> TrainingError:
    """Advice where a step of so many texts does not fit into memory, after ``done`` steps."""
    smaller = max(1, min(section.micro_batch or texts, texts) // 2)
    begin = "Begin again with" if not done else "The last checkpoint is good. Begin a run with"
    return TrainingError(
        f"a step of {section.batch} with up to {texts} texts does not fit into memory",
        hint=f"{begin} micro_batch = {smaller}: the same losses, a third more time. Or with "
        "fewer tokens (model.inputs), fewer negatives or a smaller batch.",
    )


def advice_for_searches(work: str) -> TrainingError:
    """Advice where searching the pool does not fit into memory."""
    return TrainingError(
        f"{work} does not fit into memory",
        hint="Other programs may have it. Else fewer tokens (model.inputs), a smaller pool, or "
        "vectors in the place of token matrices (model.pooling) take less; --resume goes on from "
        "the last checkpoint.",
    )
