"""Chance that is the same on every machine: bits, permutations, popularity, and words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import gcd

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


@dataclass(frozen=True, slots=True)
class Permutation:
    """A bijection of ``range(n)`` that is computed, not stored: ``x -> (factor x + shift) mod n``.

    It spreads neighbours evenly, so that every stretch of a KB holds its share of everything.
    """

    n: int
    factor: int
    shift: int
    back: int

    @classmethod
    def of(cls, n: int, key: int) -> Permutation:
        """The permutation that 64 random bits choose."""
        factor = key % n
        while gcd(factor, n) != 1:
            factor = (factor + 1) % n
        return cls(n, factor, (key >> 20) % n, pow(factor, -1, n))

    def __call__(self, x: int) -> int:
        """The number that ``x`` is mapped to."""
        return (x * self.factor + self.shift) % self.n

    def inverse(self, y: int) -> int:
        """The ``x`` that is mapped to ``y``."""
        return (y - self.shift) * self.back % self.n


#: The popularity of the most popular entity.
TOP = 1_000_000_000


class Zipf:
    """Ranks 1 to ``n`` with a popularity of about ``TOP / rank**skew``.

    Exact at the powers of two and a straight line between them.
    """

    def __init__(self, n: int, skew: float) -> None:
        octaves = n.bit_length()
        self._values = [round(TOP * 2.0 ** (-octave * skew)) for octave in range(octaves + 1)]
        self._sizes = [min(1 << octave, n - (1 << octave) + 1) for octave in range(octaves)]
        self._weights = [
            # At least 1, so that every rank can be drawn; shifted, so that halves count.
            max(1, size * (value + after) << 8)
            for size, value, after in zip(self._sizes, self._values, self._values[1:], strict=False)
        ]
        self._total = sum(self._weights)

    def popularity(self, rank: int) -> float:
        """The popularity of a rank, from 1."""
        octave = rank.bit_length() - 1
        low = 1 << octave
        fall = self._values[octave] - self._values[octave + 1]
        return float(self._values[octave] - fall * (rank - low) // low)

    def rank(self, draws: Draws) -> int:
        """A rank drawn by popularity; within an octave all are equally likely."""
        left = draws.below(self._total)
        for octave, weight in enumerate(self._weights):
            if left < weight:
                return (1 << octave) + draws.below(self._sizes[octave])
            left -= weight
        raise AssertionError("the weights add up to the total")
