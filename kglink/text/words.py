"""Where words end, the context of a mention, and mentions that do not overlap."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

from kglink.shown import P

#: Thai to Lao, Burmese, Khmer, kana and Han: no spaces between words.
UNSPACED = (
    (0x0E01, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3041, 0x30FF),
    (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F),
    (0x1B000, 0x1B16F), (0x20000, 0x3FFFD),
)  # fmt: skip
#: Hangul syllables: spaces between words, but particles are glued to them.
HANGUL = (0xAC00, 0xD7A3)
#: Letters that are glued to the front of a word, as "and" and "in" are: waw, fa, ba, lam and kaf of
#: Arabic; vav, bet, lamed, mem, shin, he and kaf of Hebrew.
PREFIXES = "\u0648\u0641\u0628\u0644\u0643\u05d5\u05d1\u05dc\u05de\u05e9\u05d4\u05db"
_GLUED = re.compile(rf"(?<!\w)(?:[{PREFIXES}][\u0591-\u05c7\u064b-\u0652]*+){{1,2}}\Z")

_INITIALS = re.compile(r"(?<!\w)[^\W\d_]\.[^\W\d_](?!\w)")
_ZERO_WIDTH_JOINER = "\u200d"


def in_one_line(surface: str) -> str:
    """Some words with single spaces between them."""
    return " ".join(surface.split())


def is_unspaced(character: str) -> bool:
    """Whether it belongs to a script that is written without spaces between words."""
    point = ord(character)
    return any(first <= point <= last for first, last in UNSPACED)


def is_hangul(character: str) -> bool:
    """Whether it is a Korean syllable."""
    return HANGUL[0] <= ord(character) <= HANGUL[1]


def is_glued(text: str, position: int) -> bool:
    """Whether all that its word has before ``position`` are letters that are glued to words."""
    return _GLUED.search(text, max(0, position - 8), position) is not None


def cuts_word(text: str, position: int) -> bool:
    """Whether a cut at ``position`` goes through a word or through one visible character."""
    if not 0 < position < len(text):
        return False
    left, right = text[position - 1], text[position]
    if left == "\r" and right == "\n":
        return True
    if _ZERO_WIDTH_JOINER in (left, right) or (
        unicodedata.category(right)[0] == "M"
        or "\U0001f3fb" <= right <= "\U0001f3ff"
        or "\U000e0020" <= right <= "\U000e007f"
    ):
        return True
    if is_unspaced(left) or is_unspaced(right):
        return False
    return _in_word(left) and _in_word(right)


def cuts_initials(text: str, position: int) -> bool:
    """Whether a cut at ``position`` goes through initials: ``U|.S.``, ``U.|S.``."""
    dot = position if text[position : position + 1] == "." else position - 1
    return _INITIALS.search(text, max(0, dot - 1), min(len(text), dot + 3)) is not None


def mention_window(text: str, start: int, end: int, max_chars: int) -> str:
    """The mention ``text[start:end]`` with what stands around it, at most ``max_chars`` long.

    Both sides get the same room; what one does not need goes to the other. The cuts are between
    words, and the mention itself stays whole even where it is longer than ``max_chars``.
    """
    room = max(0, max_chars - (end - start))
    left = min(start, room // 2)
    right = min(len(text) - end, room - left)
    left = min(start, room - right)
    first, stop = start - left, end + right
    while first < start and (text[first].isspace() or cuts_word(text, first)):
        first += 1
    while stop > end and (text[stop - 1].isspace() or cuts_word(text, stop)):
        stop -= 1
    return text[first:stop]


def non_overlapping(places: Iterable[P], preference: Callable[[P], Any]) -> list[P]:
    """Places (``start``, ``end``) in reading order; of those that overlap the preferred one stays.

    ``preference`` sorts them, the preferred one first.
    """
    ordered = sorted(places, key=preference)
    taken = bytearray(max((one.end for one in ordered), default=0))
    kept: list[P] = []
    for one in ordered:
        if taken.find(1, one.start, one.end) < 0:
            taken[one.start : one.end] = b"\1" * (one.end - one.start)
            kept.append(one)
    return sorted(kept, key=lambda one: one.start)


def _in_word(character: str) -> bool:
    return character != "" and unicodedata.category(character)[0] in "LMN"
