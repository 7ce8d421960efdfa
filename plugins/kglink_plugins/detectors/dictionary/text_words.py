"""The words of a text as names are compared: each in one spelling, and what stands between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.models.word_ranks import commonness
from kglink.text.fold import fold
from kglink.text.name_words import EMPTY_WORDS, name_words

#: Characters of a text whose words are looked at together.
PIECE = 1 << 17
#: A longer run of letters is no word.
_LONGEST_WORD = 60
#: Marks on letters, and joiners of letters.
_MARKS = "".join(sign for sign in map(chr, range(0x300, 0xFFFF)) if category(sign)[0] == "M")
#: A word of a text.
WORD = re.compile(rf"[^\W_]++(?:[{_MARKS}\u200c\u200d]++[^\W_]*+)*+")
#: What may stand between two words of one name.
_JOINED = frozenset((" ", "\n", "-\n", "-", "\u2013", "\u2212", "'", "\u2019", "/", "&", " & "))
#: And between the two halves of a number: "1,7 l".
_DECIMAL = frozenset(",.")

#: Numbers and what stands between them.
_PIECE = re.compile(r"\d+|\D+")

MASK = (1 << 64) - 1


class Form(NamedTuple):
    """A word as names are compared: the sum of the hashes of its parts, 0 of an empty word."""

    folded: str
    word: str
    hash: int
    common: float


class TextWords(NamedTuple):
    """The words of a piece of text: their places, their forms, and whether a name goes across."""

    starts: list[int]
    ends: list[int]
    forms: list[Form]
    joined: npt.NDArray[np.bool_]
    """Whether the word and the next one may belong to one name."""
    capital: list[bool]
    """Whether the word begins with a capital."""


def words_of_text(text: str) -> Iterator[TextWords]:
    """The words of a text, piece by piece; pieces end where a line or a sentence does."""
    start = 0
    while start < len(text):
        stop = min(len(text), start + PIECE)
        if stop < len(text):
            ends = (text.rfind(sign, start + PIECE // 2, stop) for sign in ("\n", ". ", " "))
            stop = next((end + 1 for end in ends if end >= 0), stop)
        yield _words(text, start, stop)
        start = stop


def _words(text: str, start: int, stop: int) -> TextWords:
    found = [
        match.span()
        for match in WORD.finditer(text, start, stop)
        if match.end() - match.start() <= _LONGEST_WORD
    ]
    forms = [
        form_of(text[first:last], after_number=first > 1 and text[first - 2].isdigit())
        for first, last in found
    ]
    joined = np.zeros(len(found), dtype=np.bool_)
    for at in range(len(found) - 1):
        left, right = found[at][1], found[at + 1][0]
        between = text[left:right]
        joined[at] = between in _JOINED or (
            between in _DECIMAL and text[left - 1].isdigit() and text[right].isdigit()
        )
    return TextWords(
        [first for first, _ in found],
        [last for _, last in found],
        forms,
        joined,
        [text[first].isupper() for first, _ in found],
    )


@lru_cache(maxsize=1 << 16)
def form_of(word: str, *, after_number: bool = False) -> Form:
    """The form of a word, as it stands in a text."""
    folded = fold(word)
    if folded in EMPTY_WORDS and folded != "a":
        return Form(folded, folded, 0, 1.0)
    # With a word before it a Roman numeral counts something, "type II"; with a number it is a unit.
    _, *parts = name_words(f"{'1' if after_number else 'number'} {folded}")
    return Form(folded, " ".join(parts), bag_hash(parts), max(map(commonness, (folded, *parts))))


def bag_hash(words: Sequence[str]) -> int:
    """One number for some words in whatever order."""
    return sum(map(word_hash, words)) & MASK


@lru_cache(maxsize=1 << 18)
def word_hash(word: str) -> int:
    """One number for a word; for "600xl" the sum of those of "600" and "xl", which are one name."""
    return sum(map(text_hash, pieces_of(word))) & MASK


def pieces_of(word: str) -> list[str]:
    """A word cut where a number begins or ends: "600xl" is "600" and "xl"."""
    return _PIECE.findall(word)
