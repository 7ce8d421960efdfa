"""The word index of one KB: BM25 and TF-IDF over all names and the text of each entity.

A sparse matrix of words by entities holds what each word adds to the score of each entity, so that
a search is one sparse product. It comes in shards of about `SHARD_WORDS` words of text, which bound
the memory of a build, and is memory-mapped when it is read. A word is known by its hash; no list of
words is kept.

BM25 is that of Lucene: ``idf * tf / (tf + k1 * (1 - b + b * length / mean length))`` with
``idf = ln(1 + (N - n + 0.5) / (n + 0.5))``. It is divided by the sum of the idf of all words that
are looked for, which it never reaches: so it is from 0 to 1, and words that no entity has lower it.
TF-IDF is the cosine of ``sqrt(tf) * (ln((1 + N) / (1 + n)) + 1)``.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from kglink.arrays import FloatArray, IntArray
from kglink.errors import DamagedFileError
from kglink.files.digest import text_hash
from kglink.files.tables import map_array, map_column, map_offsets, map_places, places_in
from kglink.space.names import best_rows, inverse_frequency, map_matrices, weighted
from kglink.text.words import UNSPACED

HashArray = npt.NDArray[np.uint64]
#: How the words of a mention are compared with those of an entity.
WordMeasure = Literal["bm25", "tfidf"]
MEASURES: tuple[WordMeasure, ...] = ("bm25", "tfidf")
#: The file that tells that there is such an index.
HASHES_FILE = "word_hashes.npy"
#: How many words of text are in a shard before the next one begins.
SHARD_WORDS = 1 << 22
K1, B = 1.2, 0.75


_UNSPACED = re.compile("([{}])".format("".join(f"{chr(a)}-{chr(b)}" for a, b in UNSPACED)))


def words_of(folded: str) -> list[str]:
    """The words of a folded text; in scripts without spaces each character is one."""
    if not folded.isascii():
        folded = _UNSPACED.sub(r" \1 ", folded)
    return folded.split()


# ------------------------------------------------------------------------------------ building
def build_word_index(folder: Path, texts: Iterable[str], scratch: Path) -> None:
    """Index the folded texts of all entities, in their order; ``scratch`` takes what is half done.

    The first pass counts the words of each shard, the second weighs them by all shards' counts.
    """
    hashes: HashArray = np.empty(0, dtype=np.uint64)
    counts = np.empty(0, dtype=np.int64)
    starts, words = [0], 0
    for number, (count, of_words, owners) in enumerate(_shards(texts)):
        own, columns = np.unique(of_words, return_inverse=True)
        ones = np.ones(len(columns), dtype=np.float32)
        # Converting from coordinates sums the words that a text holds twice.
        matrix = sp.coo_matrix((ones, (owners, columns)), shape=(count, len(own))).tocsr()
        # In how many texts of all shards each word stands.
        both = np.concatenate([counts, np.bincount(matrix.indices, minlength=len(own))])
        hashes, places = np.unique(np.concatenate([hashes, own]), return_inverse=True)
        counts = np.bincount(places, weights=both, minlength=len(hashes)).astype(np.int64)
        np.save(scratch / f"words{number}.hashes.npy", own)
        for part in ("indptr", "indices", "data"):
            np.save(scratch / f"words{number}.{part}.npy", getattr(matrix, part))
        starts.append(starts[-1] + count)
        words += len(columns)
    np.save(folder / HASHES_FILE, hashes)
    np.save(folder / "word_counts.npy", counts)
    np.save(folder / "word_starts.npy", np.array(starts, dtype=np.int64))
    mean_length = words / max(starts[-1], 1)
    for number in range(len(starts) - 1):
        _weigh(folder, scratch, number, hashes, counts, starts[-1], mean_length)


def _shards(texts: Iterable[str]) -> Iterator[tuple[int, HashArray, npt.NDArray[np.int32]]]:
    """Some texts at a time: how many, the hashes of their words, and the text of each word."""
    hashed = lru_cache(maxsize=1 << 17)(text_hash)
    remaining = iter(texts)
    while True:
        hashes, owners, count = array("Q"), array("i"), 0
        for text in remaining:
            words = words_of(text)
            hashes.extend(map(hashed, words))
            owners.extend([count] * len(words))
            count += 1
            if len(hashes) >= SHARD_WORDS:
                break
        if not count:
            return
        yield count, np.frombuffer(hashes, np.uint64), np.frombuffer(owners, np.int32)


def _weigh(
    folder: Path,
    scratch: Path,
    number: int,
    hashes: HashArray,
    counts: IntArray,
    texts: int,
    mean_length: float,
) -> None:
    """Write what each word of a shard adds to the score of each of its entities."""
    own = map_array(scratch / f"words{number}.hashes.npy")
    data, indices, indptr = (
        map_array(scratch / f"words{number}.{part}.npy", "c")
        for part in ("data", "indices", "indptr")
    )
    matrix = sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, len(own)))
    places = np.searchsorted(hashes, own)
    lengths = np.asarray(matrix.sum(axis=1)).ravel()
    room = K1 * (1 - B + B * lengths / max(mean_length, 1e-9))
    parts = matrix.data / (matrix.data + np.repeat(room, np.diff(matrix.indptr)))
    sums = {
        "bm25": sp.csr_matrix(
            (parts * bm25_idf(counts[places], texts)[matrix.indices], indices, indptr),
            shape=matrix.shape,
        ),
        "tfidf": weighted(matrix, inverse_frequency(counts[places], texts)),
    }
    for measure, by_text in sums.items():
        by_word = by_text.T.tocsr()
        np.save(folder / f"words{number}.{measure}.npy", by_word.data.astype(np.float32))
        if measure == "bm25":  # both have the same places
            np.save(folder / f"words{number}.indptr.npy", by_word.indptr)
            np.save(folder / f"words{number}.indices.npy", by_word.indices)
    np.save(folder / f"words{number}.places.npy", places.astype(np.int64))


def bm25_idf(counts: IntArray, texts: int) -> FloatArray:
    """How much a word counts that stands in a given number of some texts."""
    return np.log1p((texts - counts + 0.5) / (counts + 0.5)).astype(np.float32)


# ----------------------------------------------------------------------------------- searching
class _Part(NamedTuple):
    """Entities that are searched together."""

    first: int
    """The number of the first entity."""
    places: IntArray
    """For each row of the matrices the place of its word among all words."""
    by_word: dict[WordMeasure, sp.csr_matrix]
    """For each measure a matrix of words by entities."""
    kept: IntArray | None = None
    """The entities of the columns; None: all, from the first on."""

    def entities(self, columns: IntArray) -> IntArray:
        """The entities of some columns."""
        return columns.astype(np.int64) + self.first if self.kept is None else self.kept[columns]


#: The words that are looked for: their places among all, and what each is multiplied by.
_Query = tuple[IntArray, FloatArray]


class WordIndex:
    """Searches the entities of one KB by their words."""

    def __init__(self, folder: Path, entities: int) -> None:
        self._hashes = map_array(folder / HASHES_FILE)
        if self._hashes.dtype != np.uint64 or self._hashes.ndim != 1:
            raise DamagedFileError(f"{folder / HASHES_FILE}: not a list of hashes")
        self._counts = map_column(folder / "word_counts.npy", np.int64, self._hashes.shape)
        self._entities = entities
        starts = map_offsets(folder / "word_starts.npy", entities)
        self._parts = []
        for number, (first, stop) in enumerate(pairwise(starts.tolist())):
            stem = folder / f"words{number}"
            count = len(map_array(stem.with_suffix(".places.npy")))
            places = map_places(stem.with_suffix(".places.npy"), count, len(self._hashes))
            matrices = map_matrices(stem, MEASURES, (count, stop - first))
            self._parts.append(_Part(first, places, dict(zip(MEASURES, matrices, strict=True))))

    def search(
        self, folded: Sequence[str], k: int, measure: WordMeasure
    ) -> list[tuple[IntArray, FloatArray]]:
        """For each folded text the ``k`` best entities and their scores, best first."""
        queries = [self._query(one, measure) for one in folded]
        searched = (
            (_matrix_of(queries, part), part.by_word[measure], part.entities)
            for part in self._parts
            if part.by_word[measure].shape[1]
        )
        return best_rows(searched, len(folded), k)

    def scores(self, folded: str, entities: IntArray, measure: WordMeasure) -> FloatArray:
        """The scores of some entities, which come in order."""
        query = self._query(folded, measure)
        total = np.zeros(len(entities), dtype=np.float32)
        for part in self._parts:
            matrix = part.by_word[measure]
            here, columns = _columns_of(part, entities, matrix.shape[1])
            if not len(here):
                continue
            for row, weight in zip(*_rows_of(query, part), strict=True):
                span = slice(matrix.indptr[row], matrix.indptr[row + 1])
                at, known = places_in(matrix.indices[span], columns)
                total[here[known]] += matrix.data[span][at[known]] * weight
        return total

    def limited(self, rows: IntArray) -> WordIndex:
        """The same, of which no other entities than these, in order, are found."""
        other = copy(self)
        other._parts = []
        for part in self._parts:
            width = next(iter(part.by_word.values())).shape[1]
            kept, columns = _columns_of(part, rows, width)
            by_word = {measure: one[:, columns] for measure, one in part.by_word.items()}
            other._parts.append(part._replace(by_word=by_word, kept=rows[kept]))
        return other

    def _query(self, folded: str, measure: WordMeasure) -> _Query:
        """The words of a text; those that no entity has count as the rarest."""
        times = Counter(map(text_hash, words_of(folded)))
        hashes = np.fromiter(times, np.uint64, len(times))
        tf = np.fromiter(times.values(), np.float32, len(times))
        places, known = places_in(self._hashes, hashes)
        counts = np.zeros(len(times), dtype=np.int64)
        counts[known] = self._counts[places[known]]
        if measure == "bm25":
            weights = tf / max(float(tf @ bm25_idf(counts, self._entities)), 1e-9)
        else:
            weights = np.sqrt(tf) * inverse_frequency(counts, self._entities)
            weights /= max(float(np.linalg.norm(weights)), 1e-9)
        order = np.argsort(places[known])
        return places[known][order], weights[known][order].astype(np.float32)


def _rows_of(query: _Query, part: _Part) -> tuple[IntArray, FloatArray]:
    """The rows of a query's words in a part, and their weights."""
    at, here = places_in(part.places, query[0])
    return at[here], query[1][here]


def _matrix_of(queries: Sequence[_Query], part: _Part) -> sp.csr_matrix:
    """The words of all queries as the rows of a matrix."""
    found = [_rows_of(query, part) for query in queries]
    indptr = np.cumsum([0, *(len(rows) for rows, _ in found)])
    indices = np.concatenate([rows for rows, _ in found])
    data = np.concatenate([weights for _, weights in found])
    return sp.csr_matrix((data, indices, indptr), shape=(len(queries), len(part.places)))


def _columns_of(part: _Part, entities: IntArray, width: int) -> tuple[IntArray, IntArray]:
    """Which of some entities a part has, and the columns in which they stand."""
    if part.kept is None:
        here = slice(*np.searchsorted(entities, [part.first, part.first + width]))
        return np.arange(len(entities))[here], entities[here] - part.first
    at, inside = places_in(part.kept, entities)
    return np.flatnonzero(inside), at[inside]
