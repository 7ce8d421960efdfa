"""What a tagger reads: the words of a text as pieces, in windows that overlap.

The words that it learnt from tell it texts of another kind.

Words carry their own offsets into the text, so that spans are exact whatever the tokenizer does to
letters. A tagger gives one answer for each word, at its first piece; in the overlap of two windows
the answer counts whose window goes on farther to both sides.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.arrays import IntArray
from kglink.models.inputs import IdArray, PieceTokenizer
from kglink.models.source import ModelSource
from kglink.text.words import is_unspaced

HashArray = npt.NDArray[np.uint32]

VOCABULARY = "words.npy"
#: A text of fewer words is not judged by them, and of a longer one only this number is looked at.
_LEAST_WORDS, _MOST_WORDS = 8, 20_000
_LETTERS = re.compile(r"[^\W\d_]{3,}")
#: Letters and digits together, and each other sign that is no space by itself.
_WORD = re.compile(r"[^\W_]+|\S")
#: Of a longer word the rest is not read.
_WORD_CHARS, _WORD_PIECES = 100, 16
#: Words whose pieces are kept; then they are looked up anew.
_KEPT_WORDS = 200_000
#: Pieces that two windows share, at most a quarter of them.
_OVERLAP = 48


class Words(NamedTuple):
    """Words of a text that a model reads: where they stand, and their pieces."""

    starts: IntArray
    ends: IntArray
    pieces: list[IdArray]

    def __len__(self) -> int:
        return len(self.pieces)


class Block(NamedTuple):
    """Words of a text that are read together; spans from ``start`` up to ``stop`` count."""

    words: Words
    start: int
    stop: int
    is_last: bool


class Window(NamedTuple):
    """Some words as one input: answers count for the words from ``first`` up to ``stop``."""

    ids: IdArray
    places: IntArray
    """Where the first piece of each counted word stands in ``ids``."""
    first: int
    stop: int


class WordPieces:
    """Cuts texts into words, and words into the pieces of a model."""

    def __init__(self, source: ModelSource, tokens: int) -> None:
        self.tokens = tokens
        self._pieces = PieceTokenizer(source)
        self._known: dict[str, IdArray] = {}

    def words(self, text: str) -> Words:
        """All words of a text."""
        return self._read(text, list(word_spans(text)))

    def blocks(self, text: str, count: int, shared: int) -> Iterator[Block]:
        """The words of a text, ``count`` at a time; two blocks share some, and halve them."""
        spans = word_spans(text)
        kept: list[tuple[int, int]] = []
        own = 0
        while True:
            kept += islice(spans, count - len(kept))
            is_last = len(kept) < count
            stop = len(text) if is_last else kept[len(kept) - shared // 2][0]
            yield Block(self._read(text, kept), own, stop, is_last)
            if is_last:
                return
            own, kept = stop, kept[len(kept) - shared :]

    def windows(self, words: Words) -> list[Window]:
        """All windows of some words; each word counts in one of them."""
        sizes = np.fromiter((len(ids) for ids in words.pieces), np.int64, len(words))
        ends = np.cumsum(sizes)
        cuts = list(_cuts(ends, self.tokens - 2))
        windows, counted = [], 0
        for number, (begin, end) in enumerate(cuts):
            last = number == len(cuts) - 1
            stop = end if last else max(counted + 1, (cuts[number + 1][0] + end) // 2)
            ids = self._pieces.framed(*words.pieces[begin:end])
            before = ends[counted:stop] - sizes[counted:stop] - (ends[begin] - sizes[begin])
            windows.append(Window(ids, before + 1, counted, stop))
            counted = stop
        return windows

    def _read(self, text: str, spans: Sequence[tuple[int, int]]) -> Words:
        surfaces = [text[start : min(end, start + _WORD_CHARS)] for start, end in spans]
        new = [word for word in dict.fromkeys(surfaces) if word not in self._known]
        if len(self._known) + len(new) > _KEPT_WORDS:
            self._known.clear()
            new = list(dict.fromkeys(surfaces))
        self._known.update(zip(new, self._pieces.starts(new, _WORD_PIECES), strict=True))
        pieces = [self._known[surface] for surface in surfaces]
        # Signs that the tokenizer drops are part of no word; a span may go across them.
        read = [(span, ids) for span, ids in zip(spans, pieces, strict=True) if len(ids)]
        places = np.array([span for span, _ in read], np.int64).reshape(-1, 2)
        return Words(places[:, 0], places[:, 1], [ids for _, ids in read])


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where words stand: runs of letters and digits with their marks, and signs one by one.

    In scripts without spaces each character is a word.
    """
    if text.isascii():
        yield from (found.span() for found in _WORD.finditer(text))
        return
    begin = end = -1
    for found in _WORD.finditer(text):
        start, stop = found.span()
        if start == end and _goes_on(text, start):
            end = stop
            continue
        if begin >= 0:
            yield from _unspaced(text, begin, end)
        begin, end = start, stop
    if begin >= 0:
        yield from _unspaced(text, begin, end)


def _goes_on(text: str, place: int) -> bool:
    """Whether a mark at ``place``, or just before it, makes one word of both sides."""
    before, after = unicodedata.category(text[place - 1])[0], unicodedata.category(text[place])[0]
    return after == "M" or (before == "M" and after in "LN")


def _unspaced(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A word, or in a script without spaces its characters, each with the marks on it."""
    if end - start == 1 or text[start:end].isascii():
        yield start, end
        return
    begin = start
    for place in range(start + 1, end):
        both = is_unspaced(text[place - 1]) or is_unspaced(text[place])
        if both and unicodedata.category(text[place])[0] != "M":
            yield begin, place
            begin = place
    yield begin, end


def _cuts(ends: IntArray, room: int) -> Iterator[tuple[int, int]]:
    """The words of each window, by number."""
    begin, count = 0, len(ends)
    while begin < count:
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + room, side="right")))
        yield begin, end
        if end >= count:
            return
        begin = max(
            begin + 1,
            int(np.searchsorted(ends, ends[end - 1] - min(_OVERLAP, room // 4), side="right")),
        )


# ------------------------------------------------------- texts of another kind, by their words
def read_vocabulary(folder: Path) -> HashArray:
    """Hashes of the words that a folder's tagger has seen."""
    known: HashArray = np.load(folder / VOCABULARY, allow_pickle=False)
    return known


def vocabulary(texts: Iterable[str]) -> HashArray:
    """Hashes of all words of some texts, sorted."""
    hashes = {one for text in texts for one in _hashes(text)}
    return np.sort(np.fromiter(hashes, np.uint32, len(hashes)))


def unknown_share(text: str, known: HashArray) -> float:
    """The share of a text's words whose hashes are not known; 0 where it has too few words."""
    words = np.fromiter(islice(_hashes(text), _MOST_WORDS), np.uint32)
    if len(words) < _LEAST_WORDS or not len(known):
        return 0.0
    places = np.minimum(np.searchsorted(known, words), len(known) - 1)
    return float((known[places] != words).mean())


def _hashes(text: str) -> Iterator[int]:
    for word in _LETTERS.finditer(text):
        yield zlib.crc32(word[0].lower().encode("utf-8", "replace"))
