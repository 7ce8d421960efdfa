"""Stage D: a detector learns where mentions are.

An encoder gets a head that says of each word whether a mention begins there, goes on, or is not
there. After each epoch the held-out documents judge it; the best epoch is kept, and they say how
sure its spans are.

detector/          the detector (`kglink.models.tagger_folder`)
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor

from kglink.errors import UsageError
from kglink.models.model_folder import BaseInfo
from kglink.models.runtime import TokenEncoder
from kglink.models.tag_inputs import Window, WordPieces
from kglink.models.tag_spans import ANSWERS, BEGIN, INSIDE, CurvePoint, SpanCalibration, calibrated
from kglink.models.tagger import Tagger, head_of
from kglink.models.tagger_folder import (
    TAGGER,
    VOCABULARY,
    TaggerManifest,
    unknown_share,
    vocabulary,
)
from kglink.models.tower import pack
from kglink.store import Store
from kglink.training.checkpoint import StageResult
from kglink.training.head import HeadTask, Network, run_alone, source_of
from kglink.training.job import FinetuneJob, Note, Tell
from kglink.training.loop import Judged
from kglink.training.recipe import DetectorSection
from kglink.training.run import RunSettings, TrainingReport, write_settings
from kglink.training.tagged_texts import WORTH_MENTIONS, TaggedText, TaggedTexts, tagged_texts

DETECTOR, WORK = "detector", "detector.work"
#: What a run of this stage alone has in the place of the stages S, T and O.
SOURCES_OF_DETECTOR = "D"
#: A text with more unknown words than this share of the held-out texts has is of another kind.
_USUAL = 0.99

IntArray = npt.NDArray[np.int64]
#: A window, and the right answer for each of its counted words.
Example = tuple[Window, IntArray]


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


def train_detector(
    texts: TaggedTexts,
    told: RunSettings,
    folder: Path,
    *,
    checkpoint_steps: int = 500,
    tell: Tell = lambda _: None,
) -> DetectorReport:
    """Train a detector in the folder of a run, from the beginning or the last checkpoint."""
    done = folder / DETECTOR
    if TAGGER.is_there(done):
        shutil.rmtree(folder / WORK, ignore_errors=True)
        return DetectorReport(done, TAGGER.read(done), texts, 0)
    _check(texts)
    data = [[one.text, one.places] for part in (texts.train, texts.held_out) for one in part]
    manifest, _, steps = TagTask(texts, told).run(done, data, checkpoint_steps, tell)
    return DetectorReport(done, manifest, texts, steps)


def detector_stage(
    store: Store, folder: Path, told: RunSettings, *, checkpoint_steps: int, tell: Tell
) -> DetectorReport | None:
    """Stage D beside others; None where it has no documents for it, which is told."""
    texts = tagged_texts(store, told.docs, told.recipe.selection, told.seed)
    too_few = texts.too_few(WORTH_MENTIONS)
    if too_few and not TAGGER.is_there(folder / DETECTOR):
        tell(Note(f"no detector is trained: {too_few}"))
        return None
    return train_detector(texts, told, folder, checkpoint_steps=checkpoint_steps, tell=tell)


def detector_run(
    store: Store, job: FinetuneJob, folder: Path, *, progress: Tell = lambda _: None
) -> tuple[TrainingReport, DetectorReport]:
    """A run of stage D alone, in ``folder``, from the beginning or where it stopped."""

    def train(told: RunSettings) -> tuple[DetectorReport, int, StageResult]:
        texts = tagged_texts(store, told.docs, told.recipe.selection, told.seed)
        if not job.resume:
            _check(texts)
            write_settings(folder, told)
        found = train_detector(
            texts, told, folder, checkpoint_steps=job.checkpoint_steps, tell=progress
        )
        epochs, kept = told.recipe.detector.epochs, found.manifest.epoch
        stage = StageResult(SOURCES_OF_DETECTOR, epochs, kept, found.held_out.f1)
        return found, found.steps, stage

    return run_alone(store, job, folder / DETECTOR, SOURCES_OF_DETECTOR, train)


def _check(texts: TaggedTexts) -> None:
    if too_few := texts.too_few():
        raise UsageError(
            f"no detector can be trained: {too_few}",
            hint="Add documents in which every mention is annotated: `kglink add-kb DOCS FILE "
            "--links-to KB`.",
        )


class TagTask(HeadTask[DetectorSection, Example, TaggerManifest]):
    """Learns where the mentions of texts are."""

    def __init__(self, texts: TaggedTexts, told: RunSettings) -> None:
        section = told.recipe.detector
        torch.manual_seed(told.seed)  # of the head
        source = source_of(section.base or told.recipe.model.base)
        network = Network(source, ANSWERS, told.hardware, section)
        self._texts = texts
        self._inputs = WordPieces(source, min(section.tokens, source.max_tokens))
        examples = [one for text in texts.train for one in _examples(text, self._inputs)]
        super().__init__(SOURCES_OF_DETECTOR, network, section, told, examples)

    def loss(self, batch: Sequence[Example]) -> Tensor:
        """The right answer is to be the likeliest one of each counted word."""
        network = self.network
        device = network.head.weight.device
        packed = pack([window.ids for window, _ in batch], device)
        states = network.tower(packed)
        firsts = (packed.lengths.cumsum(0) - packed.lengths)[packed.rows].tolist()
        rows = [window.places + first for (window, _), first in zip(batch, firsts, strict=True)]
        places = torch.from_numpy(np.concatenate(rows)).to(device)
        words = F.dropout(states.index_select(0, places).float(), network.dropout, network.training)
        right = torch.from_numpy(np.concatenate([answers for _, answers in batch]))
        return F.cross_entropy(network.head(words), right.to(device))

    def judged(self) -> Judged:
        """By the F1 of the best threshold."""
        best = self._calibrated().best
        figures = {"precision": best.precision, "recall": best.recall, "F1": best.f1}
        return Judged(best.f1, figures)

    def write(self, place: Path, epoch: int) -> TaggerManifest:
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
            epoch=epoch,
            foreign=float(np.quantile(shares, _USUAL)),
            libraries=self.told.libraries,
        )
        return TAGGER.write(
            place, tower, head, manifest, lambda draft: np.save(draft / VOCABULARY, known)
        )

    def _calibrated(self) -> SpanCalibration:
        """What the held-out documents say of the network as it is now."""
        network = self.network
        source, hardware = network.source, network.hardware
        states = network.tower.snapshot(hardware)
        encoder = TokenEncoder(source.name, states, hardware, source.pooling)
        tagger = Tagger(self._inputs, encoder, head_of(network.head.weight, network.head.bias))
        held = self._texts.held_out
        spans = tagger.raw_spans(one.text for one in held)
        return calibrated(
            [(found, set(one.places)) for found, one in zip(spans, held, strict=True)]
        )


def _examples(text: TaggedText, inputs: WordPieces) -> Iterator[Example]:
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
            yield window, answers[window.first : window.stop]
