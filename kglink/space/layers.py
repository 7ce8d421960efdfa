"""A segment in two layers: one that was made before, and what has changed in the KB since.

The changed entities lie in a small folder of their own beside the segment below, which may itself
be in layers. Together they answer as one segment of the whole KB would: entities and names have
the same numbers, in the order of the keys. The letters of names alone are weighed as in the
segment below, until a build makes one of both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.errors import DamagedFileError, DamagedSpaceError
from kglink.files.tables import map_array, map_places
from kglink.space.manifest import RowKind, SegmentInfo, read_part, space_errors
from kglink.space.names import NameIndex
from kglink.space.numbering import LayeredNumbers, LayeredStrings, Numbering
from kglink.space.segment import INFO_FILE, FloatColumn, Segment

PLACES_FILE, HIDDEN_FILE = "places.npy", "hidden.npy"
#: Rows fetched beyond those that are wanted, for some of them may be hidden.
_MARGIN = 16


def open_segment(folder: Path) -> Segment:
    """The segment of a folder, with those that it stands on."""
    segment = Segment(folder)
    if segment.info.layer is None:
        return segment
    return LayeredSegment(segment, open_segment(folder.parent / segment.info.layer.below))


def folders_of(folder: Path) -> list[Path]:
    """The folder of a segment, and of those that it stands on: the newest first."""
    found = [folder]
    while layer := read_part(SegmentInfo, found[-1] / INFO_FILE).layer:
        found.append(folder.parent / layer.below)
    return found


class LayeredNames(NameIndex):
    """Exact and similar names of two layers."""

    def __init__(self, below: NameIndex, above: NameIndex, numbering: Numbering) -> None:
        self._below, self._above = below, above
        self._numbering = numbering
        self.idf = below.idf
        self.folded = LayeredStrings(below.folded, above.folded, numbering)

    def exact(self, folded: str) -> IntArray:
        """The alias rows whose folded name is this one."""
        below = self._numbering.of_below(self._below.exact(folded))
        above = self._numbering.above[self._above.exact(folded)]
        return np.sort(np.concatenate([below[below >= 0], above]))

    def similar(self, folded: Sequence[str], k: int) -> list[tuple[IntArray, FloatArray]]:
        """For each name the ``k`` most similar alias rows and their cosines, best first."""
        above = self._above.similar(folded, k)
        wanted = k + _MARGIN * bool(len(self._numbering.hidden))
        while True:
            below, is_enough = [], True
            for rows, cosines in self._below.similar(folded, wanted):
                numbers = self._numbering.of_below(rows)
                there = numbers >= 0
                is_enough &= bool(there.sum() >= k or len(rows) < wanted)
                below.append((numbers[there], cosines[there]))
            if is_enough:
                break
            wanted *= 2
        found = []
        for (rows, cosines), (own_rows, own_cosines) in zip(below, above, strict=True):
            both = np.concatenate([rows, self._numbering.above[own_rows]])
            scores = np.concatenate([cosines, own_cosines])
            best = np.lexsort((both, -scores))[:k]
            found.append((both[best], scores[best]))
        return found

    def limited(self, rows: IntArray) -> NameIndex:
        """The same, of which no other alias rows than these are found."""
        is_above, own = self._numbering.split(rows)
        return LayeredNames(
            self._below.limited(own[~is_above]), self._above.limited(own[is_above]), self._numbering
        )


class LayeredSegment(Segment):
    """Read access to a KB in two layers."""

    def __init__(self, above: Segment, below: Segment) -> None:
        self.folder, self.info, self.kb = above.folder, above.info, above.kb
        self.fingerprint = above.folder.name
        self.above, self.below = above, below
        entities, names = len(below.keys), len(below.surfaces)
        with space_errors():
            places = _rising(above.folder / PLACES_FILE, entities + 1)
            hidden = _rising(above.folder / HIDDEN_FILE, entities)
        hidden_names, _ = below.aliases_of(hidden)
        starts = np.asarray(below.alias_starts[places], np.int64)
        name_places = np.repeat(starts, np.diff(np.asarray(above.alias_starts)))
        self._numbers = Numbering(entities, hidden, places)
        self._name_numbers = Numbering(names, hidden_names, name_places)
        sizes = len(places), len(self._numbers), len(self._name_numbers)
        if sizes != (len(above.keys), self.info.entities, self.info.alias_rows):
            raise DamagedSpaceError(f"{above.folder}: does not fit {below.folder}")
        self.keys = LayeredStrings(below.keys, above.keys, self._numbers)
        self.titles = LayeredStrings(below.titles, above.titles, self._numbers)
        self.surfaces = LayeredStrings(below.surfaces, above.surfaces, self._name_numbers)
        self.names = LayeredNames(below.names, above.names, self._name_numbers)
        self.popularity = _of_both(self._numbers, above.popularity, below.popularity)
        self.alias_counts = _of_both(self._name_numbers, above.alias_counts, below.alias_counts)
        self.alias_starts = LayeredNumbers(self._starts, sizes[1] + 1)

    @property
    def indexed(self) -> Segment:
        """The segment whose vectors the joint index holds: the lowest."""
        return self.below.indexed

    @property
    def layers(self) -> list[Segment]:
        """The segments that it is made of, the newest first."""
        return [self.above, *self.below.layers]

    def entity_of(self, alias_rows: IntArray) -> IntArray:
        """The entity that owns each alias row."""
        return self._name_numbers.read(
            alias_rows,
            lambda rows: self._numbers.above[self.above.entity_of(rows)],
            lambda rows: self._numbers.of_below(self.below.entity_of(rows)),
        )

    def vectors(self, kind: RowKind, rows: IntArray | slice) -> FloatArray:
        """Some vectors of one kind."""
        numbering = self.numbering(kind)
        wanted = np.arange(*rows.indices(len(numbering))) if isinstance(rows, slice) else rows
        layers = (partial(layer.vectors, kind) for layer in (self.above, self.below))
        return numbering.read(np.asarray(wanted), *layers)

    def row_count(self, kind: RowKind) -> int:
        """How many vectors of a kind there are."""
        return len(self.numbering(kind)) if kind in self.info.rows else 0

    def numbering(self, kind: RowKind) -> Numbering:
        """The numbers of the rows of one kind."""
        return self._numbers if kind == "text" else self._name_numbers

    def nearest(
        self,
        kind: RowKind,
        k: int,
        above: tuple[FloatArray, IntArray],
        below: Callable[[int], tuple[FloatArray, IntArray]],
    ) -> tuple[FloatArray, IntArray]:
        """The best ``k`` rows of both layers, by those above and as many below as are asked for."""
        numbering = self.numbering(kind)
        wanted = k + _MARGIN * bool(len(numbering.hidden))
        while True:
            scores, rows = below(wanted)
            numbers = np.where(rows >= 0, numbering.of_below(rows), -1)
            is_there = (numbers >= 0).sum(axis=1) >= k
            if (is_there | (rows < 0).any(axis=1)).all():
                break
            wanted *= 2
        own_scores, own_rows = above
        own = np.full(own_rows.shape, -1, dtype=np.int64)
        own[own_rows >= 0] = numbering.above[own_rows[own_rows >= 0]]
        both = np.concatenate([numbers, own], axis=1)
        values = np.where(both >= 0, np.concatenate([scores, own_scores], axis=1), -np.inf)
        best = np.lexsort((both, -values))[:, :k]
        return np.take_along_axis(values, best, 1), np.take_along_axis(both, best, 1)

    def _starts(self, rows: IntArray) -> IntArray:
        """The first alias row of some entities; that of the one after the last is their number."""
        starts = np.full(len(rows), len(self._name_numbers), dtype=np.int64)
        inside = np.flatnonzero(rows < len(self._numbers))
        starts[inside] = self._numbers.read(
            rows[inside],
            lambda own: self._name_numbers.above[np.asarray(self.above.alias_starts[own])],
            lambda own: self._name_numbers.of_below(np.asarray(self.below.alias_starts[own])),
        )
        return starts


def _of_both(numbering: Numbering, above: FloatColumn, below: FloatColumn) -> LayeredNumbers:
    layers = above.__getitem__, below.__getitem__
    return LayeredNumbers(lambda rows: numbering.read(rows, *layers), len(numbering))


def _rising(path: Path, below: int) -> IntArray:
    """Numbers in order, less than ``below``."""
    count = len(map_array(path))
    found: IntArray = map_places(path, count, below).astype(np.int64)
    if (np.diff(found) < 0).any():
        raise DamagedFileError(f"{path}: not in order")
    return found


def write_places(folder: Path, below: Segment, keys: Sequence[str], removed: Sequence[str]) -> None:
    """Write where the entities of ``keys`` stand among those below, and which of these are gone."""
    places = [bisect_left(below.keys, key) for key in keys]
    rows = np.array([below.row(key) for key in (*keys, *removed)], dtype=np.int64)
    np.save(folder / PLACES_FILE, np.array(places, dtype=np.int64))
    np.save(folder / HIDDEN_FILE, np.unique(rows[rows >= 0]))


def hidden_below(folder: Path, below: Segment) -> tuple[int, int]:
    """How many entities and names of the segment below a layer hides."""
    hidden = map_array(folder / HIDDEN_FILE)
    return len(hidden), len(below.aliases_of(hidden)[0])
