"""The words of a text as names are compared: each in one spelling, and what stands between them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice
from typing import NamedTuple
from unicodedata import category

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.models.opening import packaged_minilm
from kglink.text.fold import fold
from kglink.text.language import function_words, language_of
from kglink.text.name_words import EMPTY_WORDS, name_words

#: A word that is not among this number of words is as rare as any.
MOST_RANKED = 25_000
#: Characters of a text whose words are looked at together.
PIECE = 1 << 17
#: A longer run of letters is no word.
_LONGEST_WORD = 60
#: Marks on letters, and joiners of letters.
_MARKS = "".join(sign for sign in map(chr, range(0x300, 0xFFFF)) if category(sign)[0] == "M")
#: A word of a text.
WORD = re.compile(rf"[^\W_]++(?:[{_MARKS}\u200c\u200d]++[^\W_]*+)*+")
_LETTERS = re.compile(r"[^\W\d_]+")
_FIRST_LETTERS = re.compile(r"(?<![\w'\u2019-])[^\W\d_]+")
#: A headline has so many words; of its first ones, those of so many letters have a capital.
_LEAST_WORDS, _ENOUGH_WORDS, _LONG, _ALL = 4, 40, 4, 0.95
#: And so many of these are common words; a list of names has fewer.
_COMMON_WORDS = 1 / 3
#: A word in capitals that no dictionary has is an abbreviation if it is no longer.
_ABBREVIATION = 4
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


@cache
def word_ranks() -> Mapping[str, int]:
    """The place of each whole word in the vocabulary of MiniLM, the most frequent word first.

    The vocabulary was made from English texts of all kinds, words in the order of frequency.
    """
    tokenizer = json.loads((packaged_minilm() / "tokenizer.json").read_text(encoding="utf-8"))
    places: Mapping[str, int] = tokenizer["model"]["vocab"]
    words = (word for word in sorted(places, key=places.__getitem__) if word.isalpha())
    return {word: rank for rank, word in enumerate((one for one in words if len(one) > 1), 1)}


@cache
def proper_words() -> frozenset[str]:
    """Frequent words that English texts write with a capital: ``poland``, ``chicago``.

    Made by `benchmarks/proper_words.py`. The months and the days of the week are not among them: a
    text that has one seldom means the thing of that name.
    """
    table = files("kglink_plugins.detectors.dictionary").joinpath("proper_words.txt")
    return frozenset(table.read_text(encoding="utf-8").split())


def in_usual_case(text: str, is_name: Callable[[str], bool]) -> str:
    """An English text in lower case, or with lines in capitals or headlines, as it usually is.

    It keeps its length, and any other line. Words have the case of names where they are names by
    themselves.
    """
    lines = text.splitlines(keepends=True)
    others = [at for at, line in enumerate(lines) if _is_headline(line)]
    language = language_of(text) if others or text.islower() else ""
    if language == "en" and text.islower():
        return _in_usual_case(text, is_name)
    if language in ("en", ""):  # a headline has few function words
        for at in others:
            lines[at] = _in_usual_case(lines[at], is_name)
    return "".join(lines)


def _is_headline(line: str) -> bool:
    """Whether a line is in capitals, or its long words have one, and some are no names."""
    words = [found[0] for found in islice(_FIRST_LETTERS.finditer(line), _ENOUGH_WORDS)]
    in_capitals = sum(map(str.isupper, words)) >= _ALL * len(words)
    long = [
        word
        for word in words
        if in_capitals or (len(word) >= _LONG and word not in function_words("en"))
    ]
    titled = sum(word[0].isupper() for word in long)
    if len(words) < _LEAST_WORDS or titled < _ALL * len(long):
        return False
    common = sum(commonness(word.lower()) > 0 for word in long)
    return common >= max(2, _COMMON_WORDS * len(long))


def _in_usual_case(line: str, is_name: Callable[[str], bool]) -> str:
    # Among words with a capital, an abbreviation is seen: "Fever in HIV Patients".
    mixed = sum(map(str.isupper, line)) < sum(map(str.islower, line))

    def usual(found: re.Match[str]) -> str:
        word = found[0]
        lower, upper = word.lower(), word.upper()
        title = upper[:1] + lower[1:]
        if not len(word) == len(lower) == len(title) or (mixed and word not in (lower, title)):
            return word
        if lower in proper_words():
            return title
        is_ending = len(word) == 1 and line[found.start() - 1] in "'\u2019"  # Addison's
        if is_ending or (len(word) > 1 and lower in word_ranks()):
            return lower
        if name := next(filter(is_name, (title, lower, upper)), ""):
            return name
        return word if not mixed and len(word) <= _ABBREVIATION else title

    return _LETTERS.sub(usual, line)


def commonness(word: str) -> float:
    """From 0 of a name, or of a word that is not ranked, to 1 of the most frequent word.

    In orders of magnitude. ``word`` is in lower case.
    """
    rank = None if word in proper_words() else word_ranks().get(word)
    return 0.0 if rank is None else max(0.0, 1 - math.log(rank) / math.log(MOST_RANKED))
