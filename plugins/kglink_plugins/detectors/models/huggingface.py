"""Mentions by a token-classification model of Hugging Face, from a folder of the user's.

Weights are read from safetensors alone, and code that a folder brings is refused. A mention begins
and ends with a word; the labels may be of any of the common schemes (IO, BIO, BIOES, BILOU).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from kglink.errors import ModelError
from kglink.models.loading import library_errors, load_tokenizer, load_transformer
from kglink.models.source import describe_folder
from kglink.plugins import Names
from kglink.records import Span
from kglink_plugins.detectors.models.pieces import spans_of_pieces
from kglink_plugins.plugin import HuggingFaceSettings

#: Words that are given to the tokenizer at once, and those that two such pieces have in common.
_WORDS, _COMMON = 20_000, 200
#: Windows that are read at once.
_BATCH = 8
_OUTSIDE = ("O", "")
_BEGIN, _END = frozenset("BSU"), frozenset("ESLU")


class _Word(NamedTuple):
    """A word of a piece with its most probable label."""

    start: int
    end: int
    label: int
    score: float


class HuggingFaceDetector:
    """Labels the words of a text."""

    def __init__(self, settings: HuggingFaceSettings, names: Names) -> None:
        folder = settings.folder.expanduser()
        source = describe_folder(str(folder), folder)
        self._tokenizer = load_tokenizer(source)
        self._model = load_transformer("AutoModelForTokenClassification", source)
        labels = self._model.config.id2label
        self._labels = [str(labels[at]) for at in range(len(labels))]
        self._threshold = settings.threshold
        self._name = source.name
        self._length = source.max_tokens
        self._types = frozenset(settings.types)
        known = {_parts(label)[1] for label in self._labels} - {""}
        if missing := self._types - known:
            raise ModelError(
                f"{folder}: has no type {min(missing)!r}",
                hint=f"It has: {', '.join(sorted(known))}.",
            )

    def detect(self, text: str) -> list[Span]:
        """The mentions, each with the mean probability of its words' labels."""
        return spans_of_pieces(text, _WORDS, _COMMON, self._spans)

    def _spans(self, piece: str) -> Iterator[Span]:
        """Runs of words whose labels belong together."""
        run: list[_Word] = []
        kind = ""
        for word in self._words(piece):
            tag, own = _parts(self._labels[word.label])
            goes_on = run and own == kind and tag not in _BEGIN
            if run and not goes_on:
                yield from self._span(run, kind)
                run = []
            if own:
                run, kind = [*run, word], own
                if tag in _END:
                    yield from self._span(run, kind)
                    run = []
        yield from self._span(run, kind)

    def _span(self, run: Sequence[_Word], kind: str) -> Iterator[Span]:
        if run and (not self._types or kind in self._types):
            score = math.fsum(word.score for word in run) / len(run)
            if score >= self._threshold:
                yield Span(run[0].start, run[-1].end, score)

    def _words(self, piece: str) -> list[_Word]:
        """Each word once: from the window in which it stands farthest from the ends."""
        with library_errors("the tokenizer cannot read a text", self._name):
            read = self._tokenizer(
                piece,
                truncation=True,
                max_length=self._length,
                stride=(self._length - 2) // 4,
                return_overflowing_tokens=True,
                return_offsets_mapping=True,
            )
        best: dict[int, tuple[int, _Word]] = {}
        windows = range(len(read["input_ids"]))
        for first in range(0, len(windows), _BATCH):
            rows = windows[first : first + _BATCH]
            for row, scores in zip(rows, self._scores(read, rows), strict=True):
                for number, room, word in _words_of(read, row, scores):
                    if number not in best or room > best[number][0]:
                        best[number] = room, word
        return [word for _, (_, word) in sorted(best.items())]

    def _scores(self, read: Any, rows: Sequence[int]) -> torch.Tensor:
        """The probabilities of the labels of all tokens of some windows."""
        names = [name for name in self._tokenizer.model_input_names if name in read]
        batch = self._tokenizer.pad(
            {name: [read[name][row] for row in rows] for name in names}, return_tensors="pt"
        )
        with torch.inference_mode():
            return torch.softmax(self._model(**batch).logits.float(), dim=-1)


def _words_of(read: Any, row: int, scores: torch.Tensor) -> Iterator[tuple[int, int, _Word]]:
    """The words of a window: where each begins in the piece, its distance from the ends, itself."""
    numbers, offsets = read.word_ids(row), read["offset_mapping"][row]
    chances, labels = scores.max(dim=-1)
    at = 0
    while at < len(numbers):
        stop = at + 1
        while stop < len(numbers) and numbers[stop] == numbers[at]:
            stop += 1
        start, end = offsets[at][0], offsets[stop - 1][1]
        if numbers[at] is not None and start < end:
            word = _Word(start, end, int(labels[at]), float(chances[at]))
            yield numbers[at], min(at, len(numbers) - stop), word
        at = stop


def _parts(label: str) -> tuple[str, str]:
    """``B`` and ``Disease`` of ``B-Disease``; no type where nothing is marked."""
    if label in _OUTSIDE:
        return "O", ""
    tag, dash, kind = label.partition("-")
    return (tag, kind) if dash and len(tag) == 1 else ("I", label)
