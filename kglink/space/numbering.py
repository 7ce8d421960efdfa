"""The rows of two layers under the numbers that they would have in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kglink.arrays import IntArray
from kglink.files.tables import StringTable

#: What is known of some rows, by their numbers.
Read = Callable[[IntArray], npt.NDArray[Any]]


def runs_at(starts: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Runs of numbers end to end, so many from each start, and for each number its run."""
    runs = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return np.arange(len(runs)) + np.repeat(starts - before, counts), runs


class Numbering:
    """The numbers of rows of two layers, in the order that one layer would have them.

    ``hidden`` are the rows below that are not there any more, ``places`` says before which row
    below each row above stands; both in order.
    """

    def __init__(self, below: int, hidden: IntArray, places: IntArray) -> None:
        self.hidden = hidden
        self._places = places
        self._rank_of_hidden = hidden - np.arange(len(hidden))
        #: The numbers of the rows above.
        self.above: IntArray = places - np.searchsorted(hidden, places) + np.arange(len(places))
        self._count = below - len(hidden) + len(places)

    def __len__(self) -> int:
        return self._count

    def of_below(self, rows: IntArray) -> IntArray:
        """The numbers of rows below, -1 for those that are hidden."""
        numbers = rows - np.searchsorted(self.hidden, rows)
        numbers = numbers + np.searchsorted(self._places, rows, side="right")
        at = np.searchsorted(self.hidden, rows, side="right")
        is_hidden = np.searchsorted(self.hidden, rows) < at
        return np.where(is_hidden, -1, numbers)

    def split(self, numbers: IntArray) -> tuple[npt.NDArray[np.bool_], IntArray]:
        """Which rows are above, and the number of each in its own layer."""
        at = np.searchsorted(self.above, numbers)
        is_above = at < np.searchsorted(self.above, numbers, side="right")
        ranks = numbers - at
        below = ranks + np.searchsorted(self._rank_of_hidden, ranks, side="right")
        return is_above, np.where(is_above, at, below)

    def read(self, numbers: IntArray, above: Read, below: Read) -> npt.NDArray[Any]:
        """What both layers say of some rows, each asked by the numbers of its own."""
        is_above, own = self.split(numbers)
        new, old = above(own[is_above]), below(own[~is_above])
        found = np.empty((len(numbers), *new.shape[1:]), new.dtype)
        found[is_above], found[~is_above] = new, old
        return found


class LayeredStrings(Sequence[str]):
    """Strings of two layers."""

    def __init__(self, below: Strings, above: Strings, numbering: Numbering) -> None:
        self._layers = below, above
        self._numbering = numbering

    def __len__(self) -> int:
        return len(self._numbering)

    def __getitem__(self, at: int) -> str:  # type: ignore[override]  # no slices: one string each
        number = at + len(self) if at < 0 else int(at)
        if not 0 <= number < len(self):
            raise IndexError(at)
        is_above, row = self._numbering.split(np.array([number]))
        return self._layers[int(is_above[0])][int(row[0])]

    def take(self, rows: IntArray) -> list[str]:
        """Some strings, in this order."""
        is_above, own = self._numbering.split(rows)
        below = iter(self._layers[0].take(own[~is_above]))
        above = iter(self._layers[1].take(own[is_above]))
        return [next(above if here else below) for here in is_above.tolist()]

    def find(self, text: str) -> int:
        """The number of a string where both layers are in order; -1 if it is not there."""
        below, above = (layer.find(text) for layer in self._layers)
        if above >= 0:
            return int(self._numbering.above[above])
        return int(self._numbering.of_below(np.array([below]))[0]) if below >= 0 else -1

    def __iter__(self) -> Iterator[str]:
        hidden, above = set(self._numbering.hidden.tolist()), set(self._numbering.above.tolist())
        new, number = iter(self._layers[1]), 0
        for row, text in enumerate(self._layers[0]):
            while number in above:
                yield next(new)
                number += 1
            if row not in hidden:
                yield text
                number += 1
        yield from new


#: The strings of a segment, of one layer or of several.
Strings = StringTable | LayeredStrings


class LayeredNumbers:
    """Numbers of two layers, read like an array."""

    def __init__(self, read: Read, count: int) -> None:
        self._read = read
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: int | slice | IntArray) -> Any:
        if isinstance(at, slice):
            return self._read(np.arange(*at.indices(self._count)))
        rows = np.asarray(at)
        found = self._read(np.atleast_1d(rows).astype(np.int64))
        return found if rows.ndim else found[0]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self[:]
        return found if dtype is None else found.astype(dtype)
