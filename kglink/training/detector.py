"""Stage D: a detector learns where mentions are.

An encoder gets a head that says of each word whether a mention begins there, goes on, or is not
there. After each epoch the held-out documents judge it; the best epoch is kept, and they say how
sure its spans are.

It learns from documents in which all mentions are annotated. Where only some are marked, as in a
wiki that links the first one, an unmarked word is unknown and no counterexample, so such
documents are passed over. Mentions of types that hardly ever mean an entity of the KBs (the
chemicals of a corpus whose diseases are linked) are none.

detector/          the detector (`kglink.models.head_folder`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor

from kglink.arrays import IntArray
from kglink.errors import UsageError
from kglink.evaluation.annotated import (
    JUDGED_BY,
    AnnotatedText,
    annotation_of,
    linked_types,
    merged_texts,
)
from kglink.models.head_folder import TAGGER, TaggerManifest
from kglink.models.tag_inputs import VOCABULARY, Window, WordPieces, unknown_share, vocabulary
from kglink.models.tag_spans import ANSWERS, BEGIN, INSIDE, CurvePoint, SpanCalibration, calibrated
from kglink.models.tagger import Tagger, head_of
from kglink.models.tower import pack
from kglink.records import Document, EntityId
from kglink.store import Store
from kglink.training.documents import sources_of_documents, splits_of
from kglink.training.head import (
    HeadReport,
    HeadTask,
    Network,
    has_work,
    remove_work,
    run_alone,
    source_of,
)
from kglink.training.job import FinetuneJob, Note, Tell
from kglink.training.loop import EpochFigures
from kglink.training.recipe import DetectorSection, SelectionSection
from kglink.training.run import SOURCES_OF_DETECTOR, RunSettings, TrainingReport, write_settings

DETECTOR = "detector"
#: A text with more unknown words than this quantile of held-out texts is of another kind.
_USUAL = 0.99

#: A detector learns from at least the first number of mentions; at least the second judges it.
LEAST_MENTIONS, LEAST_HELD_OUT = 100, 10
#: A run that trains other things too trains a detector from this many mentions on: one that has
#: learnt from fewer is hardly ever better than the dictionary.
WORTH_MENTIONS = 500
#: A window, and the right answer for each of its counted words.
Example = tuple[Window, IntArray]


@dataclass(frozen=True, slots=True)
class TaggedText:
    """A text and the places of all its mentions."""

    text: str
    places: tuple[tuple[int, int], ...]
    golds: tuple[tuple[EntityId, ...] | None, ...] = ()
    """What each of them means, or none: nobody said it of any."""


@dataclass(frozen=True, slots=True)
class TaggedTexts:
    """The texts of a run; ``passed_over`` says of other documents why they are not used."""

    train: tuple[TaggedText, ...]
    held_out: tuple[TaggedText, ...]
    documents: tuple[str, ...]
    kbs: tuple[str, ...]
    types: tuple[str, ...]
    passed_over: tuple[str, ...]

    def too_few(self, least: int = LEAST_MENTIONS) -> str:
        """Why no detector can be learnt from them; empty where one can."""
        found = [sum(len(one.places) for one in part) for part in (self.train, self.held_out)]
        if found[0] >= least and found[1] >= LEAST_HELD_OUT:
            return ""
        why = f" ({'; '.join(self.passed_over)})" if self.passed_over else ""
        return (
            f"{found[0]:,} mentions to learn from and {found[1]:,} held back in documents that "
            f"are annotated whole; {least} and {LEAST_HELD_OUT} are needed{why}"
        )


def tagged_texts(store: Store, docs: Sequence[str], selection: SelectionSection) -> TaggedTexts:
    """The annotated documents of a store, divided as those of the other stages are."""
    parts: tuple[list[TaggedText], list[TaggedText]] = ([], [])
    used: list[str] = []
    passed_over: list[str] = []
    kbs: set[str] = set()
    types: set[str] = set()
    for name in sources_of_documents(store, docs):
        splits = splits_of(store, name, selection)
        sample = list(islice(store.documents(name, splits.train), JUDGED_BY))
        sample += islice(store.documents(name, "dev"), JUDGED_BY) if splits.dev else ()
        texts = merged_texts(name, sample)
        wanted = linked_types(texts)
        if partial := annotation_of(texts).partial:
            passed_over.append(f"{name}: {partial}")
        elif not wanted:
            passed_over.append(f"{name}: no mention means an entity of a KB here")
        else:
            used.append(name)
            types |= wanted
            divided: tuple[list[Document], list[Document]] = ([], [])
            for document, held_back in splits.divided(store):
                divided[held_back].append(document)
            for part, documents in zip(parts, divided, strict=True):
                whole = merged_texts(name, documents)
                part += [_tagged(text, wanted) for text in whole]
                for text in whole:
                    golds = [gold for one in text.mentions for gold in one.gold or ()]
                    kbs |= {gold.kb for gold in golds if gold.kb}
    return TaggedTexts(
        tuple(parts[0]),
        tuple(parts[1]),
        tuple(used),
        tuple(sorted(kbs)),
        tuple(sorted(types - {""})),
        tuple(passed_over),
    )


def whole_texts(docs: str, documents: Iterable[Document]) -> list[TaggedText]:
    """The texts of some documents of one source; none where they are annotated in part."""
    texts = merged_texts(docs, documents)
    if annotation_of(texts).partial:
        return []
    wanted = linked_types(texts)
    return [_tagged(text, wanted) for text in texts] if wanted else []


def _tagged(text: AnnotatedText, types: Iterable[str]) -> TaggedText:
    wanted = set(types)
    golds = {(one.start, one.end): one.gold for one in text.mentions if one.type in wanted}
    places = tuple(sorted(golds))
    return TaggedText(text.text, places, tuple(golds[one] for one in places))


@dataclass(frozen=True)
class DetectorReport(HeadReport[TaggerManifest]):
    """What came of stage D."""

    texts: TaggedTexts

    @property
    def held_out(self) -> CurvePoint:
        """Precision and recall on held-out documents at the threshold of the best F1."""
        return self.manifest.calibration.best


def train_detector(
    texts: TaggedTexts,
    settings: RunSettings,
    folder: Path,
    *,
    checkpoint_steps: int = 500,
    tell: Tell = lambda _: None,
    begin: Callable[[], None] = lambda: None,
) -> DetectorReport:
    """Train a detector in the folder of a run, from the beginning or the last checkpoint.

    Its work stays, as `HeadTask.run` says; ``begin`` is called when nothing refuses it any more.
    """
    done = folder / DETECTOR
    if TAGGER.is_there(done) and not has_work(done):
        manifest, steps = TAGGER.read(done), 0
    else:
        _check(texts)
        data = [[one.text, one.places] for part in (texts.train, texts.held_out) for one in part]
        task = TagTask(texts, settings)
        begin()
        manifest, steps = task.run(done, data, checkpoint_steps, tell)
    return DetectorReport(done, manifest, steps, manifest.calibration.best.f1, texts)


def detector_stage(
    store: Store, folder: Path, settings: RunSettings, *, checkpoint_steps: int, tell: Tell
) -> DetectorReport | None:
    """Stage D beside others; None where it has no documents for it, with a note."""
    texts = tagged_texts(store, settings.docs, settings.recipe.selection)
    too_few = texts.too_few(WORTH_MENTIONS)
    if too_few and not TAGGER.is_there(folder / DETECTOR):
        tell(Note(f"no detector is trained: {too_few}"))
        return None
    found = train_detector(texts, settings, folder, checkpoint_steps=checkpoint_steps, tell=tell)
    remove_work(folder / DETECTOR)
    return found


def detector_run(
    store: Store, job: FinetuneJob, folder: Path, *, progress: Tell = lambda _: None
) -> tuple[TrainingReport, DetectorReport]:
    """A run of stage D alone, in ``folder``, from the beginning or where it stopped."""

    def train(settings: RunSettings) -> DetectorReport:
        return train_detector(
            tagged_texts(store, settings.docs, settings.recipe.selection),
            *(settings, folder),
            checkpoint_steps=job.checkpoint_steps,
            tell=progress,
            begin=lambda: None if job.resume else write_settings(folder, settings),
        )

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

    def __init__(self, texts: TaggedTexts, settings: RunSettings) -> None:
        section = settings.recipe.detector
        torch.manual_seed(settings.seed)  # of the head
        source = source_of(section.base or settings.recipe.model.base)
        network = Network(source, ANSWERS, settings.hardware, section)
        self._texts = texts
        self._inputs = WordPieces(source, min(section.tokens, source.max_tokens))
        examples = [one for text in texts.train for one in _examples(text, self._inputs)]
        super().__init__(SOURCES_OF_DETECTOR, network, section, settings, examples)

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

    def judged(self) -> EpochFigures:
        """By the F1 of the best threshold."""
        best = self._calibrated().best
        figures = {"precision": best.precision, "recall": best.recall, "F1": best.f1}
        return EpochFigures(best.f1, figures)

    def write(self, place: Path, epoch: int) -> TaggerManifest:
        """Write the detector that the network is now."""
        texts = self._texts
        known = vocabulary(one.text for one in texts.train)
        shares = [unknown_share(one.text, known) for one in texts.held_out]
        tower, head = self.network.files()
        manifest = TaggerManifest(
            base=self.network.base,
            tokens=self._inputs.tokens,
            documents=texts.documents,
            kbs=texts.kbs,
            types=texts.types,
            calibration=self._calibrated(),
            epoch=epoch,
            foreign=float(np.quantile(shares, _USUAL)),
            libraries=self.settings.libraries,
        )
        return TAGGER.write(
            place, tower, head, manifest, lambda draft: np.save(draft / VOCABULARY, known)
        )

    def _calibrated(self) -> SpanCalibration:
        """What the held-out documents say of the network as it is now."""
        network = self.network
        encoder = network.encoder(network.source.pooling)
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
