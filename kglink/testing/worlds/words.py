"""Randomness that is the same on every machine, and words that can be pronounced."""

from __future__ import annotations

from itertools import product

MASK = (1 << 64) - 1
WORD_BITS = 28
_WORD_MASK = (1 << WORD_BITS) - 1

_ONSETS = (
    *("b", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gl", "gr", "h", "j", "k", "kr", "l"),
    *("m", "n", "p", "pr", "r", "s", "sh", "sk", "st", "t", "th", "tr", "v", "vr", "w", "z"),
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "ou")
_CODAS = ("", "n", "r", "s", "l", "m", "th", "nd", "rk", "st", "x", "k", "rn", "ld", "sh", "t")

# Consonants and vowels alternate, so a word is read in one way only: different numbers give
# different words, whatever the letter case.
SYLLABLES = tuple(onset + vowel for onset, vowel in product(_ONSETS, _VOWELS))
_CAPITAL = tuple(syllable.capitalize() for syllable in SYLLABLES)


def mix(x: int) -> int:
    """64 bits that look random, from 64 bits (the finaliser of SplitMix64)."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def scramble(x: int, key: int) -> int:
    """A bijection of the numbers below 2**28: neighbours end far apart."""
    x = (x + key) & _WORD_MASK
    x = ((x ^ (x >> 15)) * 0x5BD1E95) & _WORD_MASK
    x = ((x ^ (x >> 13)) * 0x2C1B3C7) & _WORD_MASK
    return x ^ (x >> 16)


def long_word(bits: int) -> str:
    """One of 2**28 words of three syllables, a different one for each number."""
    return (
        _CAPITAL[bits & 255]
        + SYLLABLES[bits >> 8 & 255]
        + SYLLABLES[bits >> 16 & 255]
        + _CODAS[bits >> 24 & 15]
    )


def short_word(bits: int) -> str:
    """One of 2**20 words of two syllables: never a long one."""
    return _CAPITAL[bits & 255] + SYLLABLES[bits >> 8 & 255] + _CODAS[bits >> 16 & 15]


_ACCENTS = {"a": "á", "e": "ë", "i": "î", "o": "ö", "u": "ů"}
_COMBINING = ("\u0301", "\u0323", "\u0308")
_SCRIPTS = (" 東京", " Ωμέγα", " Жар", " नदी", " عين", " 한강", " II", " №5")
_EMOJI = (" 🜁", " 🦊", " 👩‍🚀", " ❤️", " 🏴‍☠️", " 𝔛", " 🇱🇻", " 🧑🏽‍🌾")


def spiced(word: str, bits: int) -> str:
    """The word with something that ASCII does not have; still one word for each number."""
    kind, bits = bits & 3, bits >> 2
    if kind == 0:
        letter = next(char for char in word[1:] if char in _ACCENTS)
        return word[0] + word[1:].replace(letter, _ACCENTS[letter], 1)
    if kind == 1:
        place = 2 + bits % (len(word) - 2)
        return word[:place] + _COMBINING[bits % 3] + word[place:]
    return word + (_SCRIPTS if kind == 2 else _EMOJI)[bits & 7]


class Draws:
    """A short stream of random choices."""

    def __init__(self, key: int) -> None:
        self._key = key

    def bits(self) -> int:
        """The next 64 bits."""
        self._key = (self._key + 0xD1B54A32D192ED03) & MASK
        return mix(self._key)

    def below(self, n: int) -> int:
        """A number from 0 to ``n - 1``."""
        return self.bits() % n

    def chance(self, share: float) -> bool:
        """True with the given chance."""
        return self.bits() >> 44 < int(share * (1 << 20))
