"""A tagger: an encoder and a head that say of each word of a text whether it is in a mention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from kglink.arrays import FloatArray
from kglink.models.hardware import Hardware
from kglink.models.head_folder import TAGGER, TaggerManifest
from kglink.models.runtime import TokenEncoder
from kglink.models.tag_inputs import Block, WordPieces
from kglink.models.tag_spans import ANSWERS, SpanCalibration, spans_of_words
from kglink.models.towers import load_states
from kglink.records import Span

#: Words that are read together; longer texts are read in blocks of this number, which share some.
BLOCK_WORDS, SHARED_WORDS = 8192, 192
#: Words of several texts whose answers are computed together.
_TOGETHER = 16384


@dataclass(frozen=True, slots=True)
class Tagger:
    """Finds what may be mentions, with probabilities."""

    inputs: WordPieces
    encoder: TokenEncoder
    head: Callable[[Tensor], Tensor]
    calibration: SpanCalibration = field(default_factory=SpanCalibration)

    def proposals(self, texts: Iterable[str]) -> Iterator[list[Span]]:
        """For each text all spans that may be mentions, in reading order; they may overlap."""
        probability = self.calibration.probability
        for spans in self.raw_spans(texts):
            yield [replace(span, score=probability(span.score)) for span in spans]

    def raw_spans(self, texts: Iterable[str]) -> Iterator[list[Span]]:
        """The same with scores that are not calibrated."""
        spans: list[Span] = []
        for block, answers in self._answers(texts):
            words = block.words
            for first, stop, score in spans_of_words(answers):
                start = int(words.starts[first])
                if block.start <= start < block.stop:
                    spans.append(Span(start, int(words.ends[stop - 1]), score))
            if block.is_last:
                yield spans
                spans = []

    def _answers(self, texts: Iterable[str]) -> Iterator[tuple[Block, FloatArray]]:
        """All blocks of all texts, with the probabilities of each word's answers."""
        waiting: list[Block] = []
        words = 0
        for text in texts:
            for block in self.inputs.blocks(text, BLOCK_WORDS, SHARED_WORDS):
                waiting.append(block)
                words += len(block.words)
                if words >= _TOGETHER:
                    yield from self._answered(waiting)
                    waiting, words = [], 0
        yield from self._answered(waiting)

    def _answered(self, blocks: Sequence[Block]) -> Iterator[tuple[Block, FloatArray]]:
        windows = [self.inputs.windows(block.words) for block in blocks]
        ids = [window.ids for own in windows for window in own]
        found = iter(self.encoder.tokens(ids, self.head))
        for block, own in zip(blocks, windows, strict=True):
            answers = np.zeros((len(block.words), ANSWERS), np.float32)
            for window in own:
                answers[window.first : window.stop] = next(found)[window.places]
            yield block, answers


def open_tagger(folder: Path, hardware: Hardware) -> tuple[Tagger, TaggerManifest]:
    """The tagger of a folder, its files checked."""
    manifest, source, head = TAGGER.open(folder, ANSWERS, hardware.device)
    encoder = TokenEncoder(source.name, load_states(source, hardware), hardware, source.pooling)
    inputs = WordPieces(source, manifest.tokens)
    return Tagger(
        inputs, encoder, head_of(head["weight"], head["bias"]), manifest.calibration
    ), manifest


def head_of(weight: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor]:
    """Turns states into the probabilities of the answers."""
    weight, bias = weight.detach().float(), bias.detach().float()
    return lambda states: torch.softmax(states @ weight.T + bias, dim=-1)
