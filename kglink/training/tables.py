"""Tables on disk: token ids of texts, and sets of numbers, memory-mapped when read.

They are written once, row by row, in whatever memory a row needs; a digest of all that was
written names their content.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kglink.models.tokenise import IdArray
from kglink.space.strings import map_array

IntArray = npt.NDArray[np.int64]

_BUFFER = 1 << 20


class RowTable(Sequence[npt.NDArray[Any]]):
    """Rows of numbers of different lengths; only the pages that are read come into memory."""

    def __init__(self, stem: Path, kind: npt.DTypeLike) -> None:
        self._offsets = map_array(stem.with_suffix(".offsets.npy"))
        path = stem.with_suffix(".bin")
        self._values: npt.NDArray[Any] = (
            np.memmap(path, dtype=kind, mode="r").view(np.ndarray)
            if path.stat().st_size
            else np.empty(0, kind)
        )

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[Any]:  # type: ignore[override]  # no slices: one row each
        return self._values[self._offsets[row] : self._offsets[row + 1]]

    def take(self, rows: Iterable[int]) -> list[npt.NDArray[Any]]:
        """Some rows, copied into memory."""
        return [np.array(self[row]) for row in rows]

    def with_any(self, start: int, stop: int) -> IntArray:
        """The rows that hold a number from ``start`` to below ``stop``."""
        inside = (self._values >= start) & (self._values < stop)
        before = np.concatenate([[0], np.cumsum(inside)])[self._offsets]
        return np.flatnonzero(before[1:] > before[:-1])


class RowWriter:
    """Writes a table row by row; ``digest`` is that of all rows when it is closed."""

    def __init__(self, stem: Path, kind: npt.DTypeLike) -> None:
        self._stem = stem
        self._kind = np.dtype(kind)
        self._file = stem.with_suffix(".bin").open("wb", buffering=_BUFFER)
        self._offsets = array("q", [0])
        self._sha = hashlib.sha256()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        np.save(self._stem.with_suffix(".offsets.npy"), np.frombuffer(self._offsets, np.int64))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def add(self, row: npt.ArrayLike) -> None:
        """Append one row."""
        values = np.ascontiguousarray(row, dtype=self._kind)
        self._file.write(values.data)
        self._sha.update(len(values).to_bytes(8, "little"))
        self._sha.update(values.data)
        self._offsets.append(self._offsets[-1] + len(values))

    @property
    def digest(self) -> str:
        """A name for what was written so far."""
        return self._sha.hexdigest()[:16]


def write_rows(stem: Path, values: npt.NDArray[Any], offsets: IntArray) -> None:
    """Write a table that is in memory already."""
    stem.with_suffix(".bin").write_bytes(np.ascontiguousarray(values).tobytes())
    np.save(stem.with_suffix(".offsets.npy"), offsets)


def token_table(stem: Path) -> RowTable:
    """A table of token ids."""
    return RowTable(stem, np.int32)


def token_writer(stem: Path) -> RowWriter:
    """A writer of token ids."""
    return RowWriter(stem, np.int32)


def as_ids(rows: Iterable[npt.NDArray[Any]]) -> list[IdArray]:
    """Rows as token ids."""
    return [np.asarray(row, np.int32) for row in rows]
