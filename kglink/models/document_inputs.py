"""Documents read once for all their mentions: windows without marks, and each mention's tokens.

The windows of a text overlap, so that each mention stands in one of them with words on both sides.
Only windows with mentions are read, and only the stretches of a long text that have any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kglink.arrays import IntArray
from kglink.models.inputs import IdArray, PieceTokenizer, check_places
from kglink.records import MentionInText

#: A window is at most this multiple as long as that of one mention; two share half of that.
_LENGTHS = 3
#: How many characters a token around a mention are tokenised.
_REACH = 8
#: Windows of a cut text have a multiple of this number of tokens: many of one length are fast.
_EQUAL = 16
_WORD_CHARS = 64
_SURROGATE = re.compile("[\ud800-\udfff]")


class MentionTokens(NamedTuple):
    """A text without marks, and from where to where the tokens of its mentions stand."""

    ids: IdArray
    spans: Sequence[tuple[int, int]]


class _Stretch(NamedTuple):
    """A part of a text, and the mentions in it, given by their numbers."""

    text: str
    start: int
    mentions: list[int]


def without_marks(ids: IdArray, start: int, end: int) -> MentionTokens:
    """A text as it is read, without the marks of a mention; one without marks is all of one span.

    ``start`` and ``end`` are the marks' rows of the vocabulary.
    """
    marks = np.flatnonzero((ids == start) | (ids == end))
    if not len(marks):
        return MentionTokens(ids, [(0, len(ids))])
    opened, closed = marks.tolist()
    return MentionTokens(np.delete(ids, marks), [(opened, closed - 1)])


class DocumentInputs:
    """Cuts texts into windows for all their mentions together."""

    def __init__(self, pieces: PieceTokenizer, mention_tokens: int, max_tokens: int) -> None:
        self._pieces = pieces
        self._room = min(_LENGTHS * mention_tokens, max_tokens) - 2  # [CLS] and [SEP]
        self._shared = mention_tokens // 2
        self._reach = _REACH * self._room

    def windows(self, mentions: Sequence[MentionInText]) -> tuple[list[MentionTokens], IntArray]:
        """The windows of all texts, and for each mention the number of its span among theirs."""
        check_places(mentions)
        stretches = list(self._stretches(mentions))
        read = self._pieces.with_places([one.text for one in stretches])
        windows: list[MentionTokens] = []
        numbers = np.empty(len(mentions), np.int64)
        count = 0
        for stretch, (ids, places) in zip(stretches, read, strict=True):
            own = [mentions[at] for at in stretch.mentions]
            stops = places[:, 0].searchsorted([one.end - stretch.start for one in own], "left")
            firsts = places[:, 1].searchsorted([one.start - stretch.start for one in own], "right")
            # A mention has all tokens that it touches; the one before it where it touches none.
            firsts = np.where(firsts < stops, firsts, np.maximum(stops - 1, 0))
            tokens = list(zip(firsts.tolist(), stops.tolist(), strict=True))
            for begin, stop, inside in self._cut(len(ids), tokens):
                spans = [_within(*tokens[one], begin, stop) for one in inside]
                windows.append(MentionTokens(self._pieces.framed(ids[begin:stop]), spans))
                for one in inside:
                    numbers[stretch.mentions[one]] = count
                    count += 1
        return windows, numbers

    def _stretches(self, mentions: Sequence[MentionInText]) -> Iterator[_Stretch]:
        """The parts of the texts that have mentions, with enough around them."""
        by_text: dict[str, list[int]] = {}
        for at, mention in enumerate(mentions):
            by_text.setdefault(mention.text, []).append(at)
        for text, own in by_text.items():
            run: list[int] = []
            end = 0
            for at in sorted(own, key=lambda at: mentions[at].start):
                if run and mentions[at].start - end > 2 * self._reach:
                    yield self._stretch(text, run, mentions[run[0]].start, end)
                    run, end = [], 0
                run.append(at)
                # Of a longer mention the rest is not read.
                end = max(end, min(mentions[at].end, mentions[at].start + self._reach))
            yield self._stretch(text, run, mentions[run[0]].start, end)

    def _stretch(self, text: str, mentions: list[int], start: int, end: int) -> _Stretch:
        begin, stop = max(0, start - self._reach), min(len(text), end + self._reach)
        if begin:  # not in the middle of a word, if words are short
            begin = 1 + text.find(" ", begin, begin + _WORD_CHARS) or begin
        if stop < len(text):
            space = text.rfind(" ", stop - _WORD_CHARS, stop)
            stop = stop if space < 0 else space
        return _Stretch(_SURROGATE.sub("\ufffd", text[begin:stop]), begin, mentions)

    def _cut(
        self, tokens: int, mentions: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, int, list[int]]]:
        """Windows of equal length, each with the mentions that are nearest to its middle."""
        count = max(1, -(-(tokens - self._shared) // (self._room - self._shared)))
        length = -(-(tokens + (count - 1) * self._shared) // count)
        step = length - self._shared
        if count > 1:
            length = min(length - (length + 2) % -_EQUAL, self._room, tokens)
        inside: dict[int, list[int]] = {}
        for number, (first, stop) in enumerate(mentions):
            centre = (first + stop - length) / 2
            at = min(max(0, round(centre / step)), count - 1) if count > 1 else 0
            inside.setdefault(at, []).append(number)
        for at, own in inside.items():
            begin = min(at * step, tokens - length)
            yield begin, begin + length, own


def _within(first: int, last: int, begin: int, stop: int) -> tuple[int, int]:
    """A mention's tokens in a window, after the frame's first; of a long mention the first."""
    first = min(max(first, begin), stop - 1) if stop > begin else begin - 1
    return first - begin + 1, max(first + 1, min(last, stop)) - begin + 1
