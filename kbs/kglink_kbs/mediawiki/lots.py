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

    def add(self, lots: Iterable[int]) -> None:
        """Take in the lots of some documents."""
        for lot in lots:
            self._buckets[lot >> _SHIFT] += 1

    @property
    def bound(self) -> int:
        """No lot from here on can still be among the smallest that are wanted."""
        bucket, _ = self._last_bucket()
        return (bucket + 1) << _SHIFT

    def largest(self, lots: Iterable[int]) -> int:
        """The largest lot that is chosen, when all ``lots`` are known; -1 for none."""
        bucket, before = self._last_bucket()
        here = sorted(lot for lot in lots if lot >> _SHIFT == bucket)
        left = self._wanted - before
        if left <= 0:
            return (bucket << _SHIFT) - 1
        return here[left - 1] if left <= len(here) else (bucket + 1 << _SHIFT) - 1

    def _last_bucket(self) -> tuple[int, int]:
        """The bucket in which the wanted number is reached, and how many stand before it."""
        before = 0
        for bucket, count in enumerate(self._buckets):
            if before + count >= self._wanted:
                return bucket, before
            before += count
        return len(self._buckets) - 1, before - self._buckets[-1]
