"""Popularity after Zipf's law, in whole numbers so that every machine agrees."""

from __future__ import annotations

from kglink.testing.worlds.words import Draws

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
