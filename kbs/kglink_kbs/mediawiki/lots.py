"""Chooses documents by lot: the same ones for the same seed, however a dump is cut."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

#: Lots are numbers of so many bits; the chosen documents are those with the smallest.
LOT_BITS = 48
_BUCKET_BITS = 16
_SHIFT = LOT_BITS - _BUCKET_BITS


def draw_lot(seed: int, key: str) -> int:
    """The lot of a page: the same for the same seed, whatever else the dump holds."""
    digest = blake2b(f"{seed}:{key}".encode(), digest_size=LOT_BITS // 8)
    return int.from_bytes(digest.digest(), "big")


class Lottery:
    """Counts lots in equal buckets, so that it takes no memory for each of them."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._buckets = [0] * 2**_BUCKET_BITS
        # The wanted number is reached in the last bucket that counts, or not yet.
        self._last = len(self._buckets) - 1
        self._before = 0

    def add(self, lots: Iterable[int]) -> None:
        """Take in the lots of some documents."""
        for lot in lots:
            bucket = lot >> _SHIFT
            self._buckets[bucket] += 1
            self._before += bucket < self._last
        while self._last and self._before >= self._wanted:
            self._last -= 1
            self._before -= self._buckets[self._last]

    @property
    def bound(self) -> int:
        """No lot from here on can still be among the smallest that are wanted."""
        return (self._last + 1) << _SHIFT

    def largest(self, lots: Iterable[int]) -> int:
        """The largest lot that is chosen, when all ``lots`` are known; -1 for none."""
        left = self._wanted - self._before
        if left <= 0:
            return (self._last << _SHIFT) - 1
        here = sorted(lot for lot in lots if lot >> _SHIFT == self._last)
        return here[left - 1] if left <= len(here) else self.bound - 1
