"""Where words begin and end in a folded text, and hashes of the words at each beginning.

A name may begin and end only where no word is cut: a letter, digit or mark must not be followed by
another. Scripts without spaces have a border at every character; Korean, which glues particles to
a word, has one after every syllable, but a name begins only where a word does.
"""

from __future__ import annotations

import functools
import unicodedata
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.text.fold import Folded
from kglink.text.words import HANGUL, is_unspaced

Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

# Kinds of characters.
_UNKNOWN, _SIGN, _SPACE, _LETTER, _UNSPACED, _HANGUL = range(6)

_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2**64
_INVERSE = pow(_BASE, -1, 2**64)
_MIX = np.uint64(0xD6E8FEB86659FD93)


class Words(NamedTuple):
    """The words of a text: word k is ``[starts[k], ends[k])``, ``one[k]`` its hash.

    ``two[k]`` is the hash of the text from its start to the end of the next word.
    """

    starts: Rows
    ends: Rows
    one: Hashes
    two: Hashes


class Borders(NamedTuple):
    """For each position of a folded text whether a name may begin or end there."""

    begin: Bools
    end: Bools


def code_points(text: str) -> npt.NDArray[np.uint32]:
    """The code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def words_of(text: str) -> Words:
    """Split a folded text into words; line feeds count as spaces."""
    points = code_points(text)
    kinds = _kinds(points)
    edges = _edges(kinds)
    dark = kinds != _SPACE
    starts = np.flatnonzero(edges[:-1] & dark)
    ends = np.flatnonzero(edges[1:] & dark) + 1
    powers, inverses = _powers(len(points).bit_length())
    sums = np.zeros(len(points) + 1, dtype=np.uint64)
    np.cumsum((points + np.uint64(1)) * powers[: len(points)], out=sums[1:])
    at_start, shift = sums[starts], inverses[starts]
    following = np.append(ends[1:], ends[-1:])
    return Words(
        starts,
        ends,
        _mixed((sums[ends] - at_start) * shift),
        _mixed((sums[following] - at_start) * shift),
    )


def borders_of(folded: Folded) -> Borders:
    """Where names may begin and end, never inside one visible character of the original."""
    points = code_points(folded.text)
    kinds = _kinds(points)
    edges = _edges(kinds)
    edges[1:-1] &= folded.starts[1:] != folded.starts[:-1]
    # A single letter or digit goes on in C++ and C#.
    sign = (points[1:] == ord("+")) | (points[1:] == ord("#"))
    edges[1:-1] &= ~(sign & edges[:-2] & (kinds[:-1] == _LETTER))
    begin, end = edges, edges.copy()
    begin[1:-1] &= ~((kinds[1:] == _HANGUL) & (kinds[:-1] == _HANGUL))
    return Borders(begin, end)


def _edges(kinds: npt.NDArray[np.uint8]) -> Bools:
    """For each position, the end included, whether it does not cut a word."""
    edges = np.ones(len(kinds) + 1, dtype=np.bool_)
    letter = kinds == _LETTER
    edges[1:-1] = ~(letter[1:] & letter[:-1])
    return edges


def _kinds(points: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    table = _kind_table()
    kinds = table[points]
    if not kinds.all():
        for point in np.unique(points[kinds == _UNKNOWN]).tolist():
            table[point] = _kind(chr(point))
        kinds = table[points]
    return kinds


@functools.cache
def _kind_table() -> npt.NDArray[np.uint8]:
    return np.full(0x110000, _UNKNOWN, dtype=np.uint8)


def _kind(character: str) -> int:
    point = ord(character)
    if character in " \n":
        return _SPACE
    if HANGUL[0] <= point <= HANGUL[1]:
        return _HANGUL
    if is_unspaced(character):
        return _UNSPACED
    return _LETTER if unicodedata.category(character)[0] in "LMN" else _SIGN


@functools.lru_cache(maxsize=4)
def _powers(bits: int) -> tuple[Hashes, Hashes]:
    """Powers of the base and of its inverse, modulo 2**64, for texts below ``2**bits``."""
    size = 1 << bits
    powers = np.full(size, _BASE, dtype=np.uint64)
    inverses = np.full(size, _INVERSE, dtype=np.uint64)
    powers[0] = inverses[0] = 1
    return np.cumprod(powers), np.cumprod(inverses)


def _mixed(hashes: Hashes) -> Hashes:
    """Spread the low bits to the high ones, by which tables are addressed."""
    hashes ^= hashes >> np.uint64(32)
    hashes *= _MIX
    hashes ^= hashes >> np.uint64(29)
    hashes *= _MIX
    return hashes
