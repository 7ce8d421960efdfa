"""Folding: one spelling for all the ways in which a name is written, with exact offset maps.

Folded are case (``ß`` to ``ss``), compatibility width (``Ａ`` to ``a``), accents (``é`` to ``e``),
punctuation of all kinds and white space (each run to one space, none at the ends). Dropped are
characters that nobody sees (soft hyphen, zero-width space, direction marks) and ``™ ® ©``. Kept:

- the symbols ``# % & @ + = < >`` and other signs, so that ``C``, ``C#`` and ``C++`` stay apart;
- the marks of scripts in which a mark is a letter (Devanagari, Thai, kana voicing, ...). Only the
  marks of Latin, Greek and Cyrillic, Arabic harakat and Hebrew points count as accents;
- the possessive: ``Addison's`` is ``addison s``. To drop it would make one name of ``McDonald's``
  and ``McDonald``, so the near match ``Addison disease`` is left to the fuzzy name index.

`fold` is idempotent, and ``fold_with_map(text).text == fold(text)`` for every text.
"""

from __future__ import annotations

import functools
import unicodedata
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.errors import SourceError

Offsets = npt.NDArray[np.int32]
Flags = npt.NDArray[np.uint8]

#: Letters that look accented but have no decomposition in Unicode, in lower case.
UNDECOMPOSED = {
    "æ": "ae", "ð": "d", "đ": "d", "ħ": "h", "ı": "i", "ĸ": "k", "ł": "l", "ŋ": "n", "ø": "o",
    "œ": "oe", "þ": "th", "ŧ": "t", "ƀ": "b", "ɨ": "i", "ʉ": "u", "ǥ": "g",
}  # fmt: skip
#: Punctuation by category, but part of a name.
KEPT_PUNCTUATION = "#%&@"
#: Not punctuation by category, but used as such: slashes, dashes, bars, letters like apostrophes.
SEPARATORS = "|~^`⁄∕∖−ʹʺʻʼʽʾʿˈˊˋ"
#: Dropped, and no part of the word they stand at.
TRADE_SIGNS = "™℠®©"
#: Marks that are accents, not letters: general and Cyrillic, Hebrew, Arabic, variation selectors.
ACCENTS = (
    (0x0300, 0x036F), (0x0483, 0x0489), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF),
    (0xFE20, 0xFE2F), (0x0591, 0x05BD), (0x05BF, 0x05BF), (0x05C1, 0x05C2), (0x05C4, 0x05C5),
    (0x05C7, 0x05C7), (0x0610, 0x061A), (0x064B, 0x065F), (0x0670, 0x0670), (0x06D6, 0x06DC),
    (0x06DF, 0x06E4), (0x06E7, 0x06E8), (0x06EA, 0x06ED), (0x08CA, 0x08E1), (0x08E3, 0x08FF),
    (0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF),
)  # fmt: skip
#: Dropped as parts of the character before them: tatweel, invisible vowels and jamo fillers,
#: joiners, skin tones, the tags of flags.
DROPPED_PARTS = (
    (0x0640, 0x0640), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x200C, 0x200D), (0x1F3FB, 0x1F3FF),
    (0xE0020, 0xE007F),
)  # fmt: skip
#: Starters that compose with the character before them: Hangul vowels and tails, Kirat Rai.
COMPOSING_STARTERS = ((0x1161, 0x11FF), (0x16D63, 0x16D6A))

#: Marks in a row that are kept. Bringing marks into order takes time that grows with the square
#: of their number; no language puts more than a few on one letter (UAX 15 streams up to 30).
MOST_MARKS = 30

#: Most characters that a folded text may have, if its caller says nothing else.
MOST_FOLDED = 32_000_000
#: Characters of a long text that are folded at once.
PIECE = 1 << 16

ZERO_WIDTH_JOINER = 0x200D
REGIONAL_A, REGIONAL_Z = 0x1F1E6, 0x1F1FF

# What `_Tables.flags` says of a character.
_KNOWN, _SEPARATOR, _PART, _LOOSE, _JOINS, _PICTOGRAPH, _REGIONAL = (1 << bit for bit in range(7))


class Folded(NamedTuple):
    """A folded text; its character i comes from ``original[starts[i]:ends[i]]``."""

    text: str
    starts: Offsets
    ends: Offsets

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The original half-open span of the folded span ``[start, end)``, which is not empty."""
        return int(self.starts[start]), int(self.ends[end - 1])


def code_points(text: str) -> npt.NDArray[np.uint32]:
    """The code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def fold(text: str, most: int = MOST_FOLDED) -> str:
    """Fold case, width, accents, punctuation and white space.

    SourceError where more than ``most`` characters come out: one sign may fold into 18 letters.
    """
    if len(text) > PIECE:
        return fold_in_pieces(text, PIECE, most)
    mapped = text.translate(_tables().mapping)
    if not mapped.isascii():
        mapped = _with_few_marks(mapped)
    if "  " not in mapped:
        return mapped.strip(" ")
    # Not split(): that would also split at characters which are no separators here.
    return " ".join(filter(None, mapped.split(" ")))


def fold_in_pieces(text: str, size: int, most: int = MOST_FOLDED) -> str:
    """`fold` with little more memory than its answer takes."""
    pieces: list[str] = []
    length, start, gap = 0, 0, False
    while start < len(text):
        stop = start + size
        while stop < len(text) and not _begins(text[stop]):
            stop += 1
        mapped = _with_few_marks(text[start:stop].translate(_tables().mapping))
        words = " ".join(filter(None, mapped.split(" ")))
        if words:
            if pieces and (gap or mapped[0] == " "):
                words = f" {words}"
            pieces.append(words)
            gap = False
        gap = gap or mapped.endswith(" ")
        length += len(words)
        if length > most:
            raise SourceError(
                f"a text of {len(text):,} characters folds into more than {most:,}",
                hint="It repeats signs that stand for many letters each: cut it into parts.",
            )
        start = stop
    return "".join(pieces)


def _with_few_marks(mapped: str) -> str:
    """Folded characters composed, without the marks beyond the most that one may bear."""
    if excess := _excess_marks(mapped):
        ends = [0, *(end for _, end in excess)]
        starts = [*(start for start, _ in excess), len(mapped)]
        mapped = "".join(mapped[end:start] for end, start in zip(ends, starts, strict=True))
    return unicodedata.normalize("NFC", mapped)


def _begins(character: str) -> bool:
    """Whether nothing before a character can change how it is folded."""
    folded = _tables().mapping[ord(character)]
    return bool(folded) and not _joins(folded[0])


def fold_with_map(text: str) -> Folded:
    """Fold ``text`` and say for each folded character which original characters it stands for.

    The ranges never split what a reader sees as one character: a combining sequence, an emoji
    joined by zero-width joiners, a flag, a line break of two characters.
    """
    tables = _tables()
    if text.isascii():
        mapped = text.translate(tables.mapping)
        origins = np.arange(len(mapped), dtype=np.int32)
        return _squeezed(mapped, origins, origins + 1)
    tables.learn(text)
    points = code_points(text)
    flags = tables.flags[points]
    joined = _joined(points, flags)
    mapped = text.translate(tables.mapping)
    lengths = tables.lengths[points].astype(np.int32)
    mapped, lengths = _without_excess(mapped, lengths)
    if not unicodedata.is_normalized("NFC", mapped):
        mapped, lengths = _composed(mapped, lengths, flags, joined)
    starts, ends = _cluster_ranges(flags, joined)
    return _squeezed(mapped, np.repeat(starts, lengths), np.repeat(ends, lengths))


# ------------------------------------------------------------------------- one character
class _Mapping(dict[int, str]):
    """Folded forms by code point, computed on first use; ``str.translate`` reads it."""

    def __missing__(self, point: int) -> str:
        folded = self[point] = _fold_character(chr(point))
        return folded


class _Tables:
    """What folding knows of each character, filled as characters are met."""

    def __init__(self) -> None:
        self.mapping = _Mapping({point: _fold_character(chr(point)) for point in range(128)})
        self.flags: Flags = np.zeros(0x110000, dtype=np.uint8)
        self.lengths: Flags = np.zeros(0x110000, dtype=np.uint8)

    def learn(self, text: str) -> None:
        """Fill the rows of the characters of ``text``."""
        for character in set(text):
            point = ord(character)
            if not self.flags[point]:
                self.lengths[point] = len(self.mapping[point])
                self.flags[point] = _flags_of(character, self.mapping[point])


@functools.cache
def _tables() -> _Tables:
    return _Tables()


def _fold_character(character: str) -> str:
    """The folded form of one character: a few characters, a space, or nothing."""
    folded, before = _step(character), character
    while folded != before:
        folded, before = _step(folded), folded
    return unicodedata.normalize("NFC", folded)


def _step(text: str) -> str:
    # Accents go before case folding, which would turn the iota subscript into a letter.
    decomposed = unicodedata.normalize("NFKD", "".join(map(_visible, text)))
    return "".join(map(_visible, "".join(map(_visible, decomposed)).casefold()))


def _visible(character: str) -> str:
    """The character, a space for it, its plain letters, or nothing."""
    point, category = ord(character), unicodedata.category(character)
    if character in KEPT_PUNCTUATION:
        return character
    if _within(point, ACCENTS) or _within(point, DROPPED_PARTS) or character in TRADE_SIGNS:
        return ""
    if category == "Cf":
        return ""
    if category[0] in "PZ" or category in {"Cc", "Cs", "Sk"} or character in SEPARATORS:
        # A lone accent sign such as ´ must not decompose to a space and a mark.
        return " "
    return UNDECOMPOSED.get(character, character)


def _flags_of(character: str, folded: str) -> int:
    point, category = ord(character), unicodedata.category(character)
    flags = _KNOWN
    if folded == " ":
        flags |= _SEPARATOR
    elif not folded:
        part = category[0] == "M" or _within(point, DROPPED_PARTS)
        flags |= _PART if part else _LOOSE
    elif _joins(folded[0]):
        flags |= _JOINS
    if REGIONAL_A <= point <= REGIONAL_Z:
        flags |= _REGIONAL
    elif category == "So":
        flags |= _PICTOGRAPH
    return flags


def _joins(character: str) -> bool:
    """Whether it forms one visible character with the one before it."""
    return unicodedata.category(character)[0] == "M" or _within(ord(character), COMPOSING_STARTERS)


def _within(point: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= point <= last for first, last in ranges)


# ------------------------------------------------------------------------------- a text
def _joined(points: npt.NDArray[np.uint32], flags: Flags) -> npt.NDArray[np.bool_]:
    """Which characters belong to the visible character that began before them."""
    joined: npt.NDArray[np.bool_] = (flags & (_PART | _LOOSE | _JOINS)) != 0
    # A letter-like mark after a space stands for itself, so that the space stays a border.
    joined[1:] &= ~(((flags[1:] & _JOINS) != 0) & ((flags[:-1] & _SEPARATOR) != 0))
    joined[1:] |= (points[:-1] == ZERO_WIDTH_JOINER) & ((flags[1:] & _PICTOGRAPH) != 0)
    regional = np.flatnonzero(flags & _REGIONAL)
    if regional.size:
        runs = np.split(regional, np.flatnonzero(np.diff(regional) != 1) + 1)
        joined[np.concatenate([run[1::2] for run in runs])] = True
    if joined.size:
        joined[0] = False
    return joined


def _cluster_ranges(flags: Flags, joined: npt.NDArray[np.bool_]) -> tuple[Offsets, Offsets]:
    """For each character the range of the visible character that it is part of."""
    firsts = np.flatnonzero(~joined)
    clusters = np.cumsum(~joined) - 1
    stops = np.where(flags & _LOOSE, 0, np.arange(1, len(flags) + 1))
    ends = np.maximum.reduceat(stops, firsts) if firsts.size else firsts
    return firsts[clusters].astype(np.int32), ends[clusters].astype(np.int32)


@functools.cache
def _marks() -> frozenset[str]:
    """The characters that NFC brings into an order of their own."""
    characters = map(chr, range(0x0300, 0x1F000))
    return frozenset(filter(unicodedata.combining, characters))


def _excess_marks(mapped: str) -> list[tuple[int, int]]:
    """Where marks stand that follow too many others; looks at one character of many."""
    if len(mapped) <= MOST_MARKS:
        return []
    marks = _marks()
    found: list[tuple[int, int]] = []
    end = 0
    for at in range(0, len(mapped), MOST_MARKS):
        if at < end or mapped[at] not in marks:
            continue
        start, end = at, at + 1
        while start and mapped[start - 1] in marks:
            start -= 1
        while end < len(mapped) and mapped[end] in marks:
            end += 1
        if end - start > MOST_MARKS:
            found.append((start + MOST_MARKS, end))
    return found


def _without_excess(mapped: str, lengths: Offsets) -> tuple[str, Offsets]:
    """Drop excess marks, and correct how many folded characters each original one has."""
    excess = _excess_marks(mapped)
    if not excess:
        return mapped, lengths
    kept = np.ones(len(mapped), np.bool_)
    for start, end in excess:
        kept[start:end] = False
    owners = np.repeat(np.arange(len(lengths)), lengths)[kept]
    points = code_points(mapped)
    mapped = points[kept].tobytes().decode("utf-32-le", "surrogatepass")
    return mapped, np.bincount(owners, minlength=len(lengths)).astype(np.int32)


def _composed(
    mapped: str, lengths: Offsets, flags: Flags, joined: npt.NDArray[np.bool_]
) -> tuple[str, Offsets]:
    """Compose ``mapped`` and correct how many folded characters each original one has."""
    clusters = np.cumsum(~joined) - 1
    firsts = np.append(np.flatnonzero(~joined), len(flags))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    lengths = lengths.copy()
    for cluster in np.unique(clusters[(flags & _JOINS) != 0]):
        first, stop = firsts[cluster], firsts[cluster + 1]
        piece = mapped[offsets[first] : offsets[stop]]
        lengths[first:stop] = 0
        lengths[first] = len(unicodedata.normalize("NFC", piece))
    return unicodedata.normalize("NFC", mapped), lengths


def _squeezed(mapped: str, starts: Offsets, ends: Offsets) -> Folded:
    """Make one space of each run of spaces, none at the ends; a space stands for its run."""
    text = " ".join(filter(None, mapped.split(" ")))
    if len(text) == len(mapped):
        return Folded(text, starts, ends)
    spaces = code_points(mapped) == 32
    kept = ~spaces
    kept[1:] |= ~spaces[:-1]
    kept[: len(mapped) - len(mapped.lstrip(" "))] = False
    kept[len(mapped.rstrip(" ")) :] = False
    rows = np.flatnonzero(kept)
    starts, ends, inner = starts[rows], ends[rows], np.flatnonzero(spaces[rows])
    # A space may also come out of one character, as in "1 2" of ½; then there is no gap.
    inner = inner[starts[inner + 1] > ends[inner - 1]]
    starts[inner], ends[inner] = ends[inner - 1], starts[inner + 1]
    return Folded(text, starts, ends)
