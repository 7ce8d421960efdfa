"""Stage D: a detector learns where mentions are.

An encoder gets a head that says of each word whether a mention begins there, goes on, or is not
there. After each epoch the held-out documents judge it; the best epoch is kept, and they say how
sure its spans are.

detector.work/     checkpoints and the best epoch so far, until it is done
detector/          the detector (`kglink.models.tagger_folder`)
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor

from kglink.errors import TrainingError, UsageError
from kglink.files.digest import digest_of
from kglink.models.head_folder import TAGGER, TaggerManifest
from kglink.models.model_folder import BaseInfo
from kglink.models.runtime import TokenEncoder
from kglink.models.tag_inputs import VOCABULARY, Window, WordPieces, unknown_share, vocabulary
from kglink.models.tag_spans import ANSWERS, BEGIN, INSIDE, CurvePoint, SpanCalibration, calibrated
from kglink.models.tagger import Tagger, head_of
from kglink.models.tower import pack
from kglink.store import Store
from kglink.training.checkpoint import saying_what_is_kept
from kglink.training.head import (
    HeadJob,
    HeadTraining,
    Judged,
    Network,
    Stage,
    finished,
    new_settings,
    source_of,
)
from kglink.training.job import DetectorNews, FinetuneJob, Note, Tell
from kglink.training.recipe import DetectorSection
from kglink.training.run import (
    RunSettings,
    TrainingReport,
    alone,
    read_report,
    read_settings,
    write_settings,
)
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


DetectorJob = HeadJob[DetectorSection]


def train_detector(
    texts: TaggedTexts, job: DetectorJob, folder: Path, *, tell: Tell = lambda _: None
) -> DetectorReport:
    """Train a detector in the folder of a run, from the beginning or the last checkpoint."""
    done = folder / DETECTOR
    if TAGGER.is_there(done):
        shutil.rmtree(folder / WORK, ignore_errors=True)
        return DetectorReport(done, TAGGER.read(done), texts, 0)
    if too_few := texts.too_few():
        raise _no_detector(too_few)
    torch.manual_seed(job.seed)  # of the head
    network = Network(source_of(job.base), ANSWERS, job.hardware, job.section)
    training = _Training(texts, job, folder, network, tell)
    training.run()
    manifest = training.write()
    training.clear()
    return DetectorReport(done, manifest, texts, training.at.total)


def detector_stage(
    store: Store, folder: Path, told: RunSettings, *, checkpoint_steps: int, tell: Tell
) -> DetectorReport | None:
    """Stage D of a run; None where it has no documents for it, which is told."""
    recipe = told.recipe
    texts = tagged_texts(store, told.docs, recipe.selection, told.seed)
    by_itself = told.sources == SOURCES_OF_DETECTOR
    too_few = texts.too_few(LEAST_MENTIONS if by_itself else WORTH_MENTIONS)
    if too_few and not TAGGER.is_there(folder / DETECTOR):
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
        report = finished(
            folder,
            detector.folder,
            Stage(SOURCES_OF_DETECTOR, told.recipe.detector.epochs, detector.manifest.epoch),
            detector.held_out.f1,
            detector.steps,
            began,
        )
        return report, detector


def _new_settings(store: Store, job: FinetuneJob, folder: Path) -> RunSettings:
    told = new_settings(store, job, folder, SOURCES_OF_DETECTOR)
    if too_few := tagged_texts(store, told.docs, told.recipe.selection, told.seed).too_few():
        raise _no_detector(too_few)
    write_settings(folder, told)
    return told


def _no_detector(why: str) -> UsageError:
    return UsageError(
        f"no detector can be trained: {why}",
        hint="Add documents in which every mention is annotated: `kglink add-kb DOCS FILE "
        "--links-to KB`.",
    )


class _Example(NamedTuple):
    """A window, and the right answer for each of its counted words."""

    window: Window
    answers: IntArray


class _Training(HeadTraining[DetectorSection, _Example]):
    """Trains one detector."""

    stage = SOURCES_OF_DETECTOR

    def __init__(
        self, texts: TaggedTexts, job: DetectorJob, folder: Path, network: Network, tell: Tell
    ) -> None:
        source = network.source
        self._texts = texts
        self._folder = folder
        self._inputs = WordPieces(source, min(job.section.tokens, source.max_tokens))
        super().__init__(
            network,
            [one for text in texts.train for one in _examples(text, self._inputs)],
            job,
            folder / WORK,
            {
                "recipe": digest_of([job.section.model_dump(mode="json"), job.seed]),
                "base model": source.fingerprint,
                "state of the data": digest_of(
                    [
                        [one.text, one.places]
                        for part in (texts.train, texts.held_out)
                        for one in part
                    ]
                ),
            },
            tell,
        )

    def loss(self, batch: Sequence[_Example]) -> Tensor:
        """The right answer is to be the likeliest one of each counted word."""
        network = self.network
        device = network.head.weight.device
        packed = pack([one.window.ids for one in batch], device)
        states = network.tower(packed)
        firsts = (packed.lengths.cumsum(0) - packed.lengths)[packed.rows].tolist()
        rows = [one.window.places + first for one, first in zip(batch, firsts, strict=True)]
        places = torch.from_numpy(np.concatenate(rows)).to(device)
        words = F.dropout(states.index_select(0, places).float(), network.dropout, network.training)
        right = torch.from_numpy(np.concatenate([one.answers for one in batch]))
        return F.cross_entropy(network.head(words), right.to(device))

    def judged(self) -> Judged:
        """By the F1 of the best threshold."""
        found = self._calibrated().best

        def news(epoch: int, loss: float, seconds: float, is_best: bool) -> DetectorNews:
            return DetectorNews(
                epoch=epoch,
                epochs=self.job.section.epochs,
                loss=loss,
                seconds=seconds,
                precision=found.precision,
                recall=found.recall,
                f1=found.f1,
                is_best=is_best,
            )

        return Judged(found.f1, news)

    def write(self) -> TaggerManifest:
        """Write the detector that the network is now."""
        texts, source = self._texts, self.network.source
        known = vocabulary(one.text for one in texts.train)
        shares = [unknown_share(one.text, known) for one in texts.held_out]
        tower, head = self.network.files()
        manifest = TaggerManifest(
            base=BaseInfo(name=source.name, fingerprint=source.fingerprint),
            tokens=self._inputs.tokens,
            documents=texts.documents,
            kbs=texts.kbs,
            types=texts.types,
            calibration=self._calibrated(),
            epoch=self.at.best_epoch + 1,
            foreign=float(np.quantile(shares, _USUAL)),
            libraries=self.job.libraries,
        )
        place = self._folder / DETECTOR
        with saying_what_is_kept(place):
            return TAGGER.write(
                place, tower, head, manifest, lambda draft: np.save(draft / VOCABULARY, known)
            )

    def _calibrated(self) -> SpanCalibration:
        """What the held-out documents say of the network as it is now."""
        network, hardware = self.network, self.job.hardware
        source = network.source
        states = network.tower.snapshot(hardware)
        encoder = TokenEncoder(source.name, states, hardware, source.pooling)
        tagger = Tagger(self._inputs, encoder, head_of(network.head.weight, network.head.bias))
        held = self._texts.held_out
        spans = tagger.raw_spans(one.text for one in held)
        return calibrated(
            [(found, set(one.places)) for found, one in zip(spans, held, strict=True)]
        )


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
