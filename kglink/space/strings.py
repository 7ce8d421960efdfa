"""Tables of strings on disk: one blob of UTF-8 and its offsets, memory-mapped when read."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

_BUFFER = 1 << 20


def map_array(path: Path) -> npt.NDArray[Any]:
    """A saved array, memory-mapped; as a plain array, which is read much faster than a memmap."""
    loaded: npt.NDArray[Any] = np.load(path, mmap_mode="r").view(np.ndarray)
    return loaded


class StringTable(Sequence[str]):
    """Strings by number; only the pages that are read come into memory."""

    def __init__(self, stem: Path) -> None:
        self._offsets = map_array(stem.with_suffix(".offsets.npy"))
        size = stem.with_suffix(".utf8").stat().st_size
        self._blob: npt.NDArray[np.uint8] = (
            np.memmap(stem.with_suffix(".utf8"), dtype=np.uint8, mode="r").view(np.ndarray)
            if size
            else np.empty(0, dtype=np.uint8)
        )

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, at: int) -> str:  # type: ignore[override]  # no slices: one string each
        start, stop = self._offsets[at], self._offsets[at + 1]
        return self._blob[start:stop].tobytes().decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        step = 65_536
        for first in range(0, len(self), step):
            bounds = np.asarray(self._offsets[first : first + step + 1])
            raw = self._blob[bounds[0] : bounds[-1]].tobytes()
            local = (bounds - bounds[0]).tolist()
            for start, stop in pairwise(local):
                yield raw[start:stop].decode("utf-8")


class StringWriter:
    """Writes a table of strings, one after the other."""

    def __init__(self, stem: Path) -> None:
        self._stem = stem
        self._blob = stem.with_suffix(".utf8").open("wb", buffering=_BUFFER)
        self._offsets = array("q", [0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._blob.close()
        np.save(self._stem.with_suffix(".offsets.npy"), np.frombuffer(self._offsets, np.int64))

    def add(self, text: str) -> None:
        """Append one string."""
        self._offsets.append(self._offsets[-1] + self._blob.write(text.encode("utf-8")))
