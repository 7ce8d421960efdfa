"""Where words begin and end in a folded text.

A name may begin and end only where no word is cut: a letter, digit or mark must not be followed by
another. Scripts without spaces have a border at every character; Korean, which glues particles to
a word, has one after every syllable, but a name begins only where a word does. In Arabic and Hebrew
a name also begins behind a letter or two that are glued to it, where four more follow.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from kglink.text.fold import Folded, code_points
from kglink.text.words import PREFIXES, is_hangul, is_unspaced

Bools = npt.NDArray[np.bool_]

# Kinds of characters.
_UNKNOWN, _SIGN, _SPACE, _LETTER, _UNSPACED, _HANGUL = range(6)
_PREFIXES = list(map(ord, PREFIXES))
#: Behind glued letters fewer letters are rather the rest of a word: "door" without its first one.
_LEAST_BEHIND = 4
#: The kind of each, filled as characters are met.
_KINDS = np.zeros(0x110000, dtype=np.uint8)


class Borders(NamedTuple):
    """For each position of a folded text whether a name may begin or end there, or a word begin."""

    begin: Bools
    end: Bools
    word: Bools


def borders_of(folded: Folded) -> Borders:
    """Where names may begin and end, never inside one visible character of the original."""
    points = code_points(folded.text)
    kinds = _kinds(points)
    letter = kinds == _LETTER
    whole = folded.starts[1:] != folded.starts[:-1]
    edges = np.ones(len(kinds) + 1, dtype=np.bool_)
    edges[1:-1] = ~(letter[1:] & letter[:-1]) & whole
    # A single letter or digit goes on in C++ and C#.
    sign = (points[1:] == ord("+")) | (points[1:] == ord("#"))
    edges[1:-1] &= ~(sign & edges[:-2] & letter[:-1])
    begin, end = edges, edges.copy()
    begin[1:-1] &= ~((kinds[1:] == _HANGUL) & (kinds[:-1] == _HANGUL))
    begin[:-1] &= kinds != _SPACE
    word = begin.copy()
    if len(points) > _LEAST_BEHIND and (glued := np.isin(points, _PREFIXES)).any():
        behind = np.zeros(len(begin), dtype=np.bool_)
        behind[:-_LEAST_BEHIND] = sliding_window_view(letter, _LEAST_BEHIND).all(axis=1)
        behind[1:-1] &= whole
        once = word[:-1] & glued
        begin[1:] |= once & behind[1:]
        begin[2:] |= once[:-1] & glued[1:] & behind[2:]
    return Borders(begin, end, word)


def _kinds(points: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    kinds = _KINDS[points]
    if not kinds.all():
        for point in np.unique(points[kinds == _UNKNOWN]).tolist():
            _KINDS[point] = _kind(chr(point))
        kinds = _KINDS[points]
    return kinds


def _kind(character: str) -> int:
    if character == " ":
        return _SPACE
    if is_hangul(character):
        return _HANGUL
    if is_unspaced(character):
        return _UNSPACED
    return _LETTER if unicodedata.category(character)[0] in "LMN" else _SIGN
