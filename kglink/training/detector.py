"""Stage D: a detector learns where mentions are.

An encoder gets a head that says of each word whether a mention begins there, goes on, or is not
there. After each epoch the held-out documents judge it; the best epoch is kept, and they say how
sure its spans are.

detector.work/     checkpoints and the best epoch so far, until it is done
detector/          the detector (`kglink.models.tagger_folder`)
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor, nn

from kglink.errors import TrainingError, UsageError
from kglink.files.atomic import atomic_path
from kglink.files.digest import digest_of
from kglink.models.hardware import Hardware, choose_hardware, usable_cores
from kglink.models.inputs import tokenizer_files
from kglink.models.model_folder import (
    BaseInfo,
    TowerFiles,
    is_model_folder,
    read_manifest,
    tower_sources,
)
from kglink.models.opening import resolve_model
from kglink.models.runtime import TokenEncoder
from kglink.models.source import ModelSource
from kglink.models.tag_inputs import Window, WordPieces
from kglink.models.tag_spans import ANSWERS, BEGIN, INSIDE, CurvePoint, SpanCalibration, calibrated
from kglink.models.tagger import Tagger, head_of
from kglink.models.tagger_folder import (
    TaggerManifest,
    is_tagger_folder,
    read_tagger,
    unknown_share,
    vocabulary,
    write_tagger,
)
from kglink.models.tower import pack
from kglink.models.towers import load_tower
from kglink.store import Store
from kglink.training.checkpoint import (
    Checkpoints,
    Position,
    load_parameters,
    saying_what_is_kept,
    write_tensors,
)
from kglink.training.job import DetectorNews, FinetuneJob, Note, StepNews, Tell
from kglink.training.recipe import DEFAULT_RECIPE, DetectorSection, Recipe
from kglink.training.run import (
    SETTINGS,
    RunSettings,
    TrainingReport,
    alone,
    read_report,
    read_settings,
    write_report,
    write_settings,
)
from kglink.training.step import rate_at
from kglink.training.tagged_texts import (
    LEAST_MENTIONS,
    WORTH_MENTIONS,
    TaggedText,
    TaggedTexts,
    tagged_texts,
)

DETECTOR, WORK = "detector", "detector.work"
#: What a run of this stage alone has in the place of the stages S, T and O.
SOURCES_OF_DETECTOR = "D"
_BEST = "best.safetensors"
#: A text with more unknown words than this share of the held-out texts has is of another kind.
_USUAL = 0.99

IntArray = npt.NDArray[np.int64]


class DetectorReport(NamedTuple):
    """What came of stage D."""

    folder: Path
    manifest: TaggerManifest
    texts: TaggedTexts
    steps: int

    @property
    def held_out(self) -> CurvePoint:
        """Precision and recall on held-out documents at the threshold of the best F1."""
        return self.manifest.calibration.best


@dataclass(frozen=True, slots=True)
class DetectorJob:
    """What stage D is told."""

    section: DetectorSection
    base: str
    seed: int
    hardware: Hardware
    checkpoint_steps: int
    libraries: dict[str, str] = field(default_factory=dict)


def train_detector(
    texts: TaggedTexts, job: DetectorJob, folder: Path, *, tell: Tell = lambda _: None
) -> DetectorReport:
    """Train a detector in the folder of a run, from the beginning or the last checkpoint."""
    done = folder / DETECTOR
    if is_tagger_folder(done):
        shutil.rmtree(folder / WORK, ignore_errors=True)
        return DetectorReport(done, read_tagger(done), texts, 0)
    if too_few := texts.too_few():
        raise _no_detector(too_few)
    source = _source(job.base)
    tokens = min(job.section.tokens, source.max_tokens)
    training = _Training(texts, job, folder, source, WordPieces(source, tokens), tell)
    before = torch.get_num_threads()
    torch.set_num_threads(job.hardware.threads)
    try:
        return training.run()
    finally:
        torch.set_num_threads(before)


def detector_stage(
    store: Store, folder: Path, told: RunSettings, *, checkpoint_steps: int, tell: Tell
) -> DetectorReport | None:
    """Stage D of a run; None where it has no documents for it, which is told."""
    recipe = told.recipe
    texts = tagged_texts(store, told.docs, recipe.selection, told.seed)
    by_itself = told.sources == SOURCES_OF_DETECTOR
    too_few = texts.too_few(LEAST_MENTIONS if by_itself else WORTH_MENTIONS)
    if too_few and not is_tagger_folder(folder / DETECTOR):
        tell(Note(f"no detector is trained: {too_few}"))
        return None
    job = DetectorJob(
        section=recipe.detector,
        base=recipe.detector.base or recipe.model.base,
        seed=told.seed,
        hardware=told.hardware,
        checkpoint_steps=checkpoint_steps,
        libraries=told.libraries,
    )
    return train_detector(texts, job, folder, tell=tell)


def detector_run(
    store: Store, job: FinetuneJob, folder: Path, *, progress: Tell = lambda _: None
) -> tuple[TrainingReport, DetectorReport]:
    """A run of stage D alone, in ``folder``, from the beginning or where it stopped."""
    began = time.monotonic()
    with alone(folder):
        told = read_settings(folder) if job.resume else _new_settings(store, job, folder)
        detector = detector_stage(
            store, folder, told, checkpoint_steps=job.checkpoint_steps, tell=progress
        )
        if detector is None:
            raise TrainingError(f"{folder}: the documents that the run began with are gone")
        if report := read_report(folder):
            return report, detector
        section, best = told.recipe.detector, detector.held_out
        report = TrainingReport(
            folder=folder,
            model=detector.folder,
            sources=SOURCES_OF_DETECTOR,
            steps=detector.steps,
            seconds=round(time.monotonic() - began, 3),
            stages=(
                {
                    "name": SOURCES_OF_DETECTOR,
                    "epochs": section.epochs,
                    "kept": detector.manifest.epoch,
                    "figure": best.f1,
                },
            ),
            recalls=None,
            notes=(),
        )
        write_report(report)
        return report, detector


def _new_settings(store: Store, job: FinetuneJob, folder: Path) -> RunSettings:
    if (folder / SETTINGS).exists():
        raise UsageError(
            f"{folder}: there is a run already",
            hint="Go on with it (--resume), give another name, or delete the folder.",
        )
    for name in job.docs:
        store.kb(name)
    recipe = job.chosen_recipe()
    if too_few := tagged_texts(store, job.docs, recipe.selection, recipe.seed).too_few():
        raise _no_detector(too_few)
    told = RunSettings(
        recipe=recipe,
        recipe_name="" if isinstance(job.recipe, Recipe) else str(job.recipe or DEFAULT_RECIPE),
        sources=SOURCES_OF_DETECTOR,
        source_kbs=(),
        target_kbs=(),
        docs=tuple(job.docs),
        hardware=choose_hardware(job.device, job.precision, job.threads or usable_cores()),
    )
    write_settings(folder, told)
    return told


def _no_detector(why: str) -> UsageError:
    return UsageError(
        f"no detector can be trained: {why}",
        hint="Add documents in which every mention is annotated: `kglink add-kb DOCS FILE "
        "--links-to KB`.",
    )


class _Network(nn.Module):
    """The encoder and its head."""

    def __init__(self, source: ModelSource, hardware: Hardware, section: DetectorSection) -> None:
        super().__init__()
        self.tower = load_tower(source, hardware)
        self.head = nn.Linear(self.tower.dim, ANSWERS).to(hardware.device)
        self.tower.freeze_embeddings(section.freeze_embeddings)
        self._dropout = section.dropout

    def forward(self, windows: Sequence[Window]) -> Tensor:
        """The scores of the answers of all counted words of the windows, in their order."""
        device = self.head.weight.device
        batch = pack([window.ids for window in windows], device)
        states = self.tower(batch)
        firsts = (batch.lengths.cumsum(0) - batch.lengths)[batch.rows].tolist()
        rows = [window.places + first for window, first in zip(windows, firsts, strict=True)]
        places = torch.from_numpy(np.concatenate(rows)).to(device)
        words = F.dropout(states.index_select(0, places).float(), self._dropout, self.training)
        scores: Tensor = self.head(words)
        return scores

    def groups(self, weight_decay: float) -> list[dict[str, object]]:
        """The trained parameters; biases and norms do not decay."""
        trained = [one for one in self.parameters() if one.requires_grad]
        return [
            {"params": [one for one in trained if one.ndim > 1], "weight_decay": weight_decay},
            {"params": [one for one in trained if one.ndim < 2], "weight_decay": 0.0},
        ]


class _Example(NamedTuple):
    """A window, and the right answer for each of its counted words."""

    window: Window
    answers: IntArray


class _Training:
    """Trains one detector."""

    def __init__(
        self,
        texts: TaggedTexts,
        job: DetectorJob,
        folder: Path,
        source: ModelSource,
        inputs: WordPieces,
        tell: Tell,
    ) -> None:
        self._texts = texts
        self._job = job
        self._folder = folder
        self._source = source
        self._inputs = inputs
        self._tell = tell
        self._examples = [one for text in texts.train for one in _examples(text, inputs)]
        torch.manual_seed(job.seed)  # of the head
        self._network = _Network(source, job.hardware, job.section)
        groups = self._network.groups(job.section.weight_decay)
        self._optimiser = torch.optim.AdamW(groups, lr=job.section.learning_rate)
        self._checkpoints = Checkpoints(folder / WORK, self._identity())
        self._at = Position()

    def run(self) -> DetectorReport:
        """Train to the end, and write the detector."""
        section = self._job.section
        if self._checkpoints.exists():
            self._at = self._checkpoints.position()
            self._checkpoints.load_model(self._network)
            self._checkpoints.load_optimiser(self._network, self._optimiser, None)
            self._tell(Note(f"the detector goes on after step {self._at.total:,}"))
        while self._at.epoch < section.epochs:
            self._epoch()
            self._checkpoints.save(self._at, self._network, self._optimiser, None)
        load_parameters(self._folder / WORK / _BEST, self._network)
        manifest = self._write(self._judged())
        shutil.rmtree(self._folder / WORK, ignore_errors=True)
        done = self._folder / DETECTOR
        return DetectorReport(done, manifest, self._texts, self._at.total)

    def _epoch(self) -> None:
        job, began = self._job, time.monotonic()
        batches = self._batches(self._at.epoch)
        left = batches[self._at.step :]
        for number, batch in enumerate(left, 1):
            rate = self._step(batch)
            if number < len(left) and self._at.total % job.checkpoint_steps == 0:
                self._checkpoints.save(self._at, self._network, self._optimiser, None)
            pace = (time.monotonic() - began) / number
            self._report(rate, job.section.batch / pace, pace)
        loss = self._at.epoch_loss / max(1, self._at.step)
        found = self._judged().best
        is_best = self._at.best is None or found.f1 > self._at.best
        if is_best:
            self._at = replace(self._at, best=found.f1, best_epoch=self._at.epoch)
            self._keep()
        self._tell(
            DetectorNews(
                epoch=self._at.epoch + 1,
                epochs=job.section.epochs,
                loss=loss,
                seconds=time.monotonic() - began,
                precision=found.precision,
                recall=found.recall,
                f1=found.f1,
                is_best=is_best,
            )
        )
        self._at = self._at.next_epoch()

    def _step(self, batch: Sequence[_Example]) -> float:
        """Learn from some windows; returns the learning rate. Each step has a seed of its own."""
        at, section, network = self._at, self._job.section, self._network
        facts = [self._job.seed, at.epoch, at.step]
        torch.manual_seed(int(np.random.SeedSequence(facts).generate_state(1, np.uint64)[0] >> 1))
        network.train()
        scores = network([one.window for one in batch])
        right = torch.from_numpy(np.concatenate([one.answers for one in batch]))
        loss = F.cross_entropy(scores, right.to(scores.device))
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
        trained = [one for group in self._optimiser.param_groups for one in group["params"]]
        norm = nn.utils.clip_grad_norm_(trained, section.clip or torch.inf)
        if not bool(torch.isfinite(norm)):
            raise TrainingError(
                f"stage D, epoch {at.epoch + 1}, step {at.step + 1}: a gradient is not finite",
                hint="Begin a new run with a lower detector.learning_rate, or with "
                "encoder.precision = fp32.",
            )
        rate = rate_at(at.total, self._steps, section)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self._at = at.stepped(float(loss.detach()))
        return rate

    def _report(self, rate: float, windows_per_second: float, pace: float) -> None:
        at, section = self._at, self._job.section
        loss = sum(at.losses) / len(at.losses)
        self._at = replace(at, losses=at.losses[-20:])
        self._tell(
            StepNews(
                stage="D",
                epoch=at.epoch + 1,
                epochs=section.epochs,
                step=at.total,
                steps=self._steps,
                loss=loss,
                rate=rate,
                pairs_per_second=windows_per_second,
                seconds_left=pace * (self._steps - at.total),
            )
        )

    @property
    def _steps(self) -> int:
        return math.ceil(len(self._examples) / self._job.section.batch) * self._job.section.epochs

    def _batches(self, epoch: int) -> list[list[_Example]]:
        order = np.random.default_rng([self._job.seed, epoch]).permutation(len(self._examples))
        size = self._job.section.batch
        return [
            [self._examples[row] for row in order[first : first + size]]
            for first in range(0, len(order), size)
        ]

    def _keep(self) -> None:
        """Write the best weights so far."""
        path = self._folder / WORK / _BEST
        path.parent.mkdir(parents=True, exist_ok=True)
        with saying_what_is_kept(path), atomic_path(path) as draft:
            write_tensors(draft, dict(self._network.named_parameters()))

    def _judged(self) -> SpanCalibration:
        """What the held-out documents say of the network as it is now."""
        network, hardware = self._network, self._job.hardware
        states = network.tower.snapshot(hardware)
        source = self._source
        encoder = TokenEncoder(source.name, states, hardware, source.pooling)
        tagger = Tagger(self._inputs, encoder, head_of(network.head.weight, network.head.bias))
        held = self._texts.held_out
        spans = tagger.raw_spans(one.text for one in held)
        return calibrated(
            [(found, set(one.places)) for found, one in zip(spans, held, strict=True)]
        )

    def _write(self, calibration: SpanCalibration) -> TaggerManifest:
        texts, source, network = self._texts, self._source, self._network
        known = vocabulary(one.text for one in texts.train)
        shares = [unknown_share(one.text, known) for one in texts.held_out]
        tower = TowerFiles(network.tower.config, network.tower.weights(), tokenizer_files(source))
        head = {
            "weight": network.head.weight.detach().cpu().contiguous(),
            "bias": network.head.bias.detach().cpu().contiguous(),
        }
        manifest = TaggerManifest(
            base=BaseInfo(name=source.name, fingerprint=source.fingerprint),
            tokens=self._inputs.tokens,
            documents=texts.documents,
            kbs=texts.kbs,
            types=texts.types,
            calibration=calibration,
            epoch=self._at.best_epoch + 1,
            foreign=float(np.quantile(shares, _USUAL)),
            libraries=self._job.libraries,
        )
        place = self._folder / DETECTOR
        with saying_what_is_kept(place):
            return write_tagger(place, tower, head, known, manifest)

    def _identity(self) -> dict[str, str]:
        texts = self._texts
        return {
            "recipe": digest_of([self._job.section.model_dump(mode="json"), self._job.seed]),
            "base model": self._source.fingerprint,
            "state of the data": digest_of(
                [[one.text, one.places] for part in (texts.train, texts.held_out) for one in part]
            ),
        }


def _source(base: str) -> ModelSource:
    """The encoder to begin with; of a trained model the one that reads mentions."""
    folder = Path(base).expanduser()
    if is_model_folder(folder):
        return tower_sources(folder, read_manifest(folder))[0]
    return resolve_model(base)


def _examples(text: TaggedText, inputs: WordPieces) -> Iterator[_Example]:
    """The windows of a text with the right answers; of mentions that overlap the longest counts."""
    words = inputs.words(text.text)
    answers = np.zeros(len(words), np.int64)
    for start, end in sorted(text.places, key=lambda place: place[0] - place[1]):
        first = int(np.searchsorted(words.ends, start, side="right"))
        stop = int(np.searchsorted(words.starts, end, side="left"))
        if first < stop and not answers[first:stop].any():
            answers[first] = BEGIN
            answers[first + 1 : stop] = INSIDE
    for window in inputs.windows(words):
        if window.stop > window.first:
            yield _Example(window, answers[window.first : window.stop])
