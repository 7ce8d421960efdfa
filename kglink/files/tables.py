"""Tables on disk: strings, and rows of numbers of different lengths, memory-mapped when read.

A table is a blob of all its rows and an array of the offsets at which they begin. Offsets are
checked when a table is opened, so that a damaged file cannot lead outside of the blob. What was
checked before, and is known not to have been touched since, is opened as it is (``checked``).
"""

from __future__ import annotations

import hashlib
import mmap
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tokenize import TokenError
from typing import Any, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt

from kglink.arrays import BoolArray, IntArray
from kglink.errors import DamagedFileError

Number = TypeVar("Number", np.int64, np.uint64)

#: What NumPy raises for files that are no arrays.
_NO_ARRAY = (
    EOFError, MemoryError, OverflowError, RecursionError, SyntaxError, TokenError, TypeError,
    ValueError,
)  # fmt: skip
_WHOLE = (np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.uint32))
_BUFFER = 1 << 20
_CHECKED_TOGETHER = 1 << 20
_STRINGS_TOGETHER = 1 << 16
_NUMBERS_TOGETHER = 1 << 14


def map_array(path: Path, mode: Literal["r", "c"] = "r") -> npt.NDArray[Any]:
    """A saved array, memory-mapped; as a plain array, which is read much faster than a memmap.

    Mode "c" is for libraries that refuse read-only arrays: what is written never gets to the disk.
    """
    try:
        return np.lib.format.open_memmap(path, mode=mode).view(np.ndarray)
    except OSError as error:
        raise DamagedFileError(f"{path}: {error.strerror}") from error
    except _NO_ARRAY as error:
        raise DamagedFileError(f"{path}: not an array ({error})") from error


def map_column(path: Path, kind: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A saved array of a known type and shape, memory-mapped."""
    found = map_array(path)
    if found.dtype != kind or found.shape != shape:
        raise DamagedFileError(f"{path}: not {shape} numbers of type {np.dtype(kind)}")
    return found


def map_places(
    path: Path,
    count: int,
    below: int,
    mode: Literal["r", "c"] = "r",
    *,
    checked: bool = False,
) -> npt.NDArray[Any]:
    """Saved whole numbers, each from 0 to less than ``below``, memory-mapped and checked."""
    found = map_array(path, mode)
    if found.dtype not in _WHOLE or found.shape != (count,):
        raise DamagedFileError(f"{path}: not {count:,} places")
    for first in () if checked else range(0, count, _CHECKED_TOGETHER):
        some = found[first : first + _CHECKED_TOGETHER]
        if some.min() < 0 or some.max() >= below:
            raise DamagedFileError(f"{path}: points outside of {below:,} rows")
    return found


def map_offsets(
    path: Path, total: int, mode: Literal["r", "c"] = "r", *, checked: bool = False
) -> IntArray:
    """Offsets into ``total`` things, checked: they begin with 0, never fall and end with total."""
    offsets = map_array(path, mode)
    if offsets.dtype not in _WHOLE or offsets.ndim != 1 or not len(offsets):
        raise DamagedFileError(f"{path}: not a list of offsets")
    rising = checked or all(
        (np.diff(offsets[first : first + _CHECKED_TOGETHER + 1]) >= 0).all()
        for first in range(0, len(offsets), _CHECKED_TOGETHER)
    )
    if offsets[0] != 0 or offsets[-1] != total or not rising:
        raise DamagedFileError(f"{path}: its offsets do not fit what they point into")
    return offsets


def places_in(
    known: npt.NDArray[Number], wanted: npt.NDArray[Number]
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """The place of each ``wanted`` number in the sorted ``known``, and whether it is there."""
    places = np.searchsorted(known, wanted)
    if not len(known):
        return places, np.zeros(len(wanted), dtype=np.bool_)
    places = np.minimum(places, len(known) - 1)
    return places, known[places] == wanted


def give_back(mapped: npt.NDArray[Any]) -> None:
    """Give back the memory of a mapped, read-only array; what is read of it comes in once more."""
    source: Any = mapped
    while isinstance(source, np.ndarray):
        source = source.base
    if isinstance(source, mmap.mmap):
        source.madvise(mmap.MADV_DONTNEED)


class StringTable(Sequence[str]):
    """Strings by number; only the pages that are read come into memory."""

    def __init__(self, stem: Path, *, checked: bool = False) -> None:
        self._path = stem.with_suffix(".utf8")
        self._blob, self._offsets = _map_table(self._path, np.uint8, checked=checked)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, at: int) -> str:  # type: ignore[override]  # no slices: one string each
        return self._decoded(self._raw(at))

    def take(self, rows: IntArray) -> list[str]:
        """Some strings, in this order."""
        starts, stops = self._offsets[rows].tolist(), self._offsets[rows + 1].tolist()
        raw = (self._blob[at:stop].tobytes() for at, stop in zip(starts, stops, strict=True))
        return list(map(self._decoded, raw))

    def equal(self, rows: IntArray, text: str) -> BoolArray:
        """Which of some strings are this one."""
        wanted = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        starts = self._offsets[rows].astype(np.int64)
        found: BoolArray = self._offsets[rows + 1] - starts == len(wanted)
        letters = starts[found][:, None] + np.arange(len(wanted))
        found[found] = (self._blob[letters] == wanted).all(axis=1)
        return found

    def find(self, text: str) -> int:
        """The number of a string in a table that is in order; -1 if it is not there."""
        wanted = text.encode("utf-8", "surrogatepass")
        at = bisect_left(range(len(self)), wanted, key=self._raw)
        return at if at < len(self) and self._raw(at) == wanted else -1

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _STRINGS_TOGETHER):
            bounds = np.asarray(self._offsets[first : first + _STRINGS_TOGETHER + 1])
            raw = self._blob[bounds[0] : bounds[-1]].tobytes()
            local = (bounds - bounds[0]).tolist()
            for mapped in (self._offsets, self._blob):
                give_back(mapped)
            for start, stop in pairwise(local):
                yield self._decoded(raw[start:stop])

    def _raw(self, at: int) -> bytes:
        return self._blob[self._offsets[at] : self._offsets[at + 1]].tobytes()

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise DamagedFileError(f"{self._path}: not text ({error})") from error


class ColumnWriter:
    """Writes an array of numbers; how many there are is known in the end."""

    def __init__(self, path: Path, kind: npt.DTypeLike) -> None:
        self._kind = np.dtype(kind)
        self._waiting: array[Any] = array(self._kind.char)
        self._file = path.open("wb", buffering=_BUFFER)
        self._count = 0
        self._write_header()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._file:
            self.add(())
            self._file.seek(0)
            self._write_header()

    def append(self, value: float) -> None:
        """Append one number."""
        self._waiting.append(value)
        if len(self._waiting) == _NUMBERS_TOGETHER:
            self.add(())

    def add(self, values: npt.ArrayLike) -> None:
        """Append some numbers."""
        own = np.ascontiguousarray(values, dtype=self._kind)
        self._file.write(self._waiting)
        self._file.write(own.data)
        self._count += len(self._waiting) + len(own)
        del self._waiting[:]

    def _write_header(self) -> None:
        """The header of NumPy's format 1.0, of the same length for any number of values."""
        shape = f"'fortran_order': False, 'shape': ({self._count},), }}"
        text = f"{{'descr': {np.lib.format.dtype_to_descr(self._kind)!r}, {shape}"
        self._file.write(np.lib.format.magic(1, 0) + (118).to_bytes(2, "little"))
        self._file.write(text.ljust(117).encode() + b"\n")


class StringWriter:
    """Writes a table of strings, one after the other."""

    def __init__(self, stem: Path) -> None:
        self._blob = stem.with_suffix(".utf8").open("wb", buffering=_BUFFER)
        self._offsets = ColumnWriter(stem.with_suffix(".offsets.npy"), np.int64)
        self._end = 0
        self._offsets.append(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._blob, self._offsets:
            pass

    def add(self, text: str) -> None:
        """Append one string."""
        self._end += self._blob.write(text.encode("utf-8"))
        self._offsets.append(self._end)


class PickedStrings(Sequence[str]):
    """Some strings of a table, in an order of their own."""

    def __init__(self, table: Sequence[str], numbers: Sequence[int] | IntArray) -> None:
        self._table = table
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, at: int) -> str:  # type: ignore[override]  # no slices: one string each
        return self._table[int(self._numbers[at])]


class RowTable(Sequence[npt.NDArray[Any]]):
    """Rows of numbers of different lengths; only the pages that are read come into memory."""

    def __init__(self, stem: Path, kind: npt.DTypeLike) -> None:
        self._values, self._offsets = _map_table(stem.with_suffix(".bin"), kind)

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
    """Writes a table row by row; ``digest`` names the content."""

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


def _map_table(
    path: Path, kind: npt.DTypeLike, *, checked: bool = False
) -> tuple[npt.NDArray[Any], IntArray]:
    """The values of all rows, and the offsets at which these begin."""
    try:
        size = path.stat().st_size
        if size % np.dtype(kind).itemsize:
            raise DamagedFileError(f"{path}: cut off")
        mapped = np.memmap(path, kind, "r").view(np.ndarray) if size else np.empty(0, kind)
    except OSError as error:
        raise DamagedFileError(f"{path}: {error.strerror}") from error
    return mapped, map_offsets(path.with_suffix(".offsets.npy"), len(mapped), checked=checked)
