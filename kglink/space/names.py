"""The name index of one KB: exact and similar names, memory-mapped.

A KB's names are its *alias rows*, in entity order with the title first; the vectors of a segment
use the same rows. Exact names are found by a sorted array of hashes, similar ones by the cosine
of trigram vectors: a sparse product against shards of at most `SHARD_ROWS` rows, so that neither
building nor searching ever holds more than one shard's matrix in memory.

The trigrams of a folded name are hashed into a fixed number of buckets by arithmetic on code
points: a million names take seconds, nothing but the idf of each bucket has to be kept, and the
same name has the same vector on every machine. Bigrams as well were measured: no better at rank 1
on the disease KBs, and three to five times slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sparse_dot_topn.unchecked import sp_matmul_topn  # the checked one copies all of an index

from kglink.arrays import FloatArray, IntArray
from kglink.errors import DamagedFileError
from kglink.files.digest import text_hash
from kglink.files.runs import SortedRuns, merged
from kglink.files.tables import (
    ColumnWriter,
    StringTable,
    map_array,
    map_column,
    map_offsets,
    map_places,
)
from kglink.space.numbering import Strings

SHARD_ROWS = 500_000
BUCKETS = 1 << 18
#: Names of which the trigrams are counted at once: some 20 MB.
_NAMES_TOGETHER = 1 << 15
_BORDER = "\x1f"
_MULTIPLIERS = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D], dtype=np.uint64)
_MIX = np.uint64(0x27D4EB2F165667C5)
_SHIFT = np.uint64(64 - 18)


def build_name_index(folder: Path, scratch: Path, idf: FloatArray | None = None) -> None:
    """Index the names in ``folder/folded`` (written before, one for each alias row).

    ``idf`` weighs the trigrams; None: they are counted. ``scratch`` takes what is half done.
    """
    names = StringTable(folder / "folded")
    runs = SortedRuns(scratch / "hashes", [np.uint32])
    frequency = np.zeros(BUCKETS, dtype=np.int64)
    for first, some in _batches(names, _NAMES_TOGETHER):
        hashes = np.fromiter(map(text_hash, some), np.uint64, len(some))
        runs.add(hashes, np.arange(first, first + len(some)))
        if idf is None:
            frequency += np.bincount(gram_counts(some).indices, minlength=BUCKETS)
    with (
        ColumnWriter(folder / "name_hashes.npy", np.uint64) as known,
        ColumnWriter(folder / "name_rows.npy", np.uint32) as rows,
    ):
        for ((hashes, own),) in merged(runs):
            known.add(hashes)
            rows.add(own)
    if idf is None:
        idf = inverse_frequency(frequency, len(names))
    np.save(folder / "idf.npy", idf)
    for first, shard in _batches(names, SHARD_ROWS):
        number = first // SHARD_ROWS
        parts = [weighted(gram_counts(some), idf) for _, some in _batches(shard, _NAMES_TOGETHER)]
        by_bucket = sp.vstack(parts, format="csr").T.tocsr()
        for part in ("indptr", "indices", "data"):
            np.save(folder / f"grams{number}.{part}.npy", getattr(by_bucket, part))


#: Names that are searched together, and what tells the alias rows of some columns.
_Part = tuple[sp.csr_matrix, Callable[[IntArray], IntArray]]


class NameIndex:
    """Exact and similar names of one KB."""

    _kept: IntArray | None = None
    """The alias rows that are found; None: all."""

    def __init__(self, folder: Path, *, checked: bool = False) -> None:
        self._names = StringTable(folder / "folded", checked=checked)
        self.folded: Strings = self._names
        count = len(self.folded)
        self._hashes = map_column(folder / "name_hashes.npy", np.uint64, (count,))
        self._rows = map_places(folder / "name_rows.npy", count, count, checked=checked)
        self.idf: FloatArray = map_column(folder / "idf.npy", np.float32, (BUCKETS,))
        self._shards: list[sp.csr_matrix] = []
        for number, first in enumerate(range(0, count, SHARD_ROWS)):
            shape = BUCKETS, min(SHARD_ROWS, count - first)
            stem = folder / f"grams{number}"
            self._shards += map_matrices(stem, ["data"], shape, checked=checked)
        self._parts: list[_Part] = []

    def exact(self, folded: str) -> IntArray:
        """The alias rows whose folded name is this one."""
        wanted = np.uint64(text_hash(folded))
        start = np.searchsorted(self._hashes, wanted, side="left")
        stop = np.searchsorted(self._hashes, wanted, side="right")
        rows = np.sort(self._rows[start:stop].astype(np.int64))
        if self._kept is not None:
            rows = np.intersect1d(rows, self._kept, assume_unique=True)
        return rows[self._names.equal(rows, folded)]

    def similar(self, folded: Sequence[str], k: int) -> list[tuple[IntArray, FloatArray]]:
        """For each name the ``k`` most similar alias rows and their cosines, best first."""
        if k < 1:
            raise ValueError(f"k = {k}: at least one name must be asked for")
        queries = weighted(gram_counts(folded), self.idf)
        return best_rows(((queries, *part) for part in self._searched()), len(folded), k)

    def limited(self, rows: IntArray) -> NameIndex:
        """The same, of which no other alias rows than these are found."""
        other = copy(self)
        other._kept = rows
        if len(rows) <= SHARD_ROWS:  # else a part is made when it is searched: one in memory
            other._parts = list(other._searched())
        return other

    def _searched(self) -> Iterable[_Part]:
        """The shards, cut to the rows to be found, each with its column-to-row function."""
        return self._parts or map(self._part, range(len(self._shards)))

    def _part(self, number: int) -> _Part:
        shard, first = self._shards[number], number * SHARD_ROWS
        if self._kept is None:
            return shard, lambda columns: columns.astype(np.int64) + first
        inside = np.searchsorted(self._kept, [first, first + shard.shape[1]])
        own = self._kept[slice(*inside)]
        return shard[:, own - first], lambda columns: own[columns]


def best_rows(
    searched: Iterable[tuple[sp.csr_matrix, sp.csr_matrix, Callable[[IntArray], IntArray]]],
    count: int,
    k: int,
) -> list[tuple[IntArray, FloatArray]]:
    """For each of ``count`` queries the ``k`` best rows and their scores; of equal ones the first.

    ``searched``: for each part of an index the queries, its matrix, and the rows of some columns.
    """
    rows = [[np.empty(0, dtype=np.int64)] for _ in range(count)]
    scores = [[np.empty(0, dtype=np.float32)] for _ in range(count)]
    for queries, matrix, rows_of in searched:
        for part in ("indices", "indptr"):  # integers as those of the matrix
            numbers = getattr(queries, part).astype(getattr(matrix, part).dtype, copy=False)
            setattr(queries, part, numbers)
        top = min(k, matrix.shape[1])
        hits = sp_matmul_topn(queries, matrix, top, sort=False, threshold=0.0, density=1.0)
        for at in range(count):
            own = slice(hits.indptr[at], hits.indptr[at + 1])
            rows[at].append(rows_of(hits.indices[own]))
            scores[at].append(hits.data[own])
    found = []
    for own_rows, own_scores in zip(
        map(np.concatenate, rows), map(np.concatenate, scores), strict=True
    ):
        order = np.lexsort((own_rows, -own_scores))[:k]
        found.append((own_rows[order], own_scores[order]))
    return found


def _batches(names: Sequence[str], size: int) -> Iterator[tuple[int, list[str]]]:
    """Some names after the other, with the number of the first."""
    stream = iter(names)
    for first in range(0, len(names), size):
        yield first, list(islice(stream, size))


def map_matrices(
    stem: Path, values: Sequence[str], shape: tuple[int, int], *, checked: bool = False
) -> Iterator[sp.csr_matrix]:
    """Sparse matrices with values in the same places, mapped from the files of one stem."""
    # Mapped copy-on-write: the product refuses arrays that are read-only, and writes nothing.
    mapped = [map_array(stem.with_suffix(f".{name}.npy"), "c") for name in values]
    count = mapped[0].size
    indptr = map_offsets(stem.with_suffix(".indptr.npy"), count, "c", checked=checked)
    indices = map_places(stem.with_suffix(".indices.npy"), count, shape[1], "c", checked=checked)
    fits = all(one.dtype == np.float32 and one.shape == (count,) for one in mapped)
    if not fits or len(indptr) != shape[0] + 1 or indptr.dtype != indices.dtype:
        raise DamagedFileError(f"{stem}: its arrays do not fit each other")
    for data in mapped:
        yield sp.csr_matrix((data, indices, indptr), shape=shape, copy=False)


def gram_counts(names: Sequence[str]) -> sp.csr_matrix:
    """How often each hashed trigram stands in each name: a (names, buckets) matrix."""
    blob = "".join(f"{_BORDER}{name}{_BORDER}" for name in names)
    codes = np.frombuffer(blob.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    lengths = np.fromiter((len(name) + 2 for name in names), dtype=np.int64, count=len(names))
    ends = np.repeat(np.cumsum(lengths), lengths)
    owner = np.repeat(np.arange(len(names), dtype=np.int64), lengths)
    start = np.arange(len(codes), dtype=np.int64)
    start = start[start + 3 <= ends]
    mixed = np.zeros(len(start), dtype=np.uint64)
    for offset, multiplier in enumerate(_MULTIPLIERS):
        mixed += codes[start + offset] * multiplier
    bucket = ((mixed * _MIX) >> _SHIFT).astype(np.int32)
    ones = np.ones(len(start), dtype=np.float32)
    # Converting from coordinates sums the trigrams that a name holds twice.
    return sp.coo_matrix((ones, (owner[start], bucket)), shape=(len(names), BUCKETS)).tocsr()


def inverse_frequency(frequency: npt.NDArray[np.int64], names: int) -> FloatArray:
    """Smoothed idf of each bucket; a bucket that no name uses is the rarest of all."""
    return (np.log((1 + names) / (1 + frequency)) + 1).astype(np.float32)


def weighted(counts: sp.csr_matrix, idf: FloatArray) -> sp.csr_matrix:
    """Rows ``sqrt(count) * idf``, scaled to length one."""
    data = np.sqrt(counts.data) * idf[counts.indices]
    matrix = sp.csr_matrix((data, counts.indices, counts.indptr), shape=counts.shape)
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    matrix.data /= np.repeat(np.where(norms > 0, norms, 1), np.diff(matrix.indptr))
    return matrix.astype(np.float32)
