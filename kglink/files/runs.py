"""Records sorted on disk by 64-bit hashes, however many there are.

Records are sorted in memory, a *run* of them at a time, and written. To read them in order, those
of one range of hashes are taken from all runs and sorted together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
Hashes = npt.NDArray[np.uint64]

#: Records of a run, and of a block that is read: with what sorting them takes some 30 MB.
MOST_RECORDS = 1 << 19
_RANGE_BITS = 8
_RANGES = 1 << _RANGE_BITS
#: The first hash of each range but the first.
_EDGES = np.arange(1, _RANGES, dtype=np.uint64) << np.uint64(64 - _RANGE_BITS)


class SortedRuns:
    """Records of a hash and some numbers, kept in files whose names begin with ``stem``."""

    def __init__(
        self, stem: Path, kinds: Sequence[npt.DTypeLike], most: int = MOST_RECORDS
    ) -> None:
        self._kinds = [np.dtype(kind) for kind in (np.uint64, *kinds)]
        self._paths = [stem.with_suffix(f".{number}") for number in range(len(self._kinds))]
        for path in self._paths:
            path.write_bytes(b"")
        self._most = most
        self._waiting: list[list[Column]] = []
        self._count = self._written = 0
        self._edges: list[npt.NDArray[np.int64]] = []
        """For each run the records at which its ranges begin."""

    def add(self, hashes: Hashes, *columns: npt.ArrayLike) -> None:
        """Add some records, in any order."""
        given = zip((hashes, *columns), self._kinds, strict=True)
        self._waiting.append([np.array(one, kind) for one, kind in given])
        self._count += len(hashes)
        if self._count - self._written >= self._most:
            self._write_run()

    def counts(self) -> npt.NDArray[np.int64]:
        """How many records each range of hashes has."""
        if self._waiting:
            self._write_run()
        edges = np.array(self._edges, dtype=np.int64).reshape(-1, _RANGES + 1)
        counts: npt.NDArray[np.int64] = np.diff(edges, axis=1).sum(axis=0)
        return counts

    def read(self, first: int, stop: int) -> list[Column]:
        """The columns of some ranges, by their hashes; records of one hash as they were added."""
        columns = []
        for path, kind in zip(self._paths, self._kinds, strict=True):
            slices = (edges[[first, stop]].tolist() for edges in self._edges)
            parts = (
                np.fromfile(path, kind, end - start, offset=start * kind.itemsize)
                for start, end in slices
            )
            columns.append(np.concatenate([np.empty(0, kind), *parts]))
        order = np.argsort(columns[0], kind="stable")
        return [column[order] for column in columns]

    def _write_run(self) -> None:
        columns = [np.concatenate(own) for own in zip(*self._waiting, strict=True)]
        self._waiting = []
        order = np.argsort(columns[0], kind="stable")
        inside = np.searchsorted(columns[0][order], _EDGES)
        self._edges.append(self._written + np.array([0, *inside, len(order)], dtype=np.int64))
        self._written += len(order)
        for path, column in zip(self._paths, columns, strict=True):
            with path.open("ab") as file:
                file.write(column[order].data)


def merged(*runs: SortedRuns, most: int = MOST_RECORDS) -> Iterator[list[list[Column]]]:
    """The columns of each of some ``runs`` in the order of their hashes, block by block.

    A block has all records of its hashes: about ``most``, or those of one range.
    """
    counts = sum((one.counts() for one in runs), np.zeros(_RANGES, dtype=np.int64))
    before = np.concatenate([[0], np.cumsum(counts)])
    first = 0
    while first < _RANGES:
        stop = int(np.searchsorted(before, before[first] + most, side="right")) - 1
        stop = min(max(stop, first + 1), _RANGES)
        yield [one.read(first, stop) for one in runs]
        first = stop
