"""Names as vectors of words and of trigrams, weighted by how rare these are in both KBs.

Words are hashed into a fixed number of buckets, so that two KBs of any size take the same memory.
A word also counts as the words that these KBs use for it (`Equivalents`).
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from kglink.arrays import FloatArray, IntArray
from kglink.overlap.names import folded_names
from kglink.plugins import PairedKBs, Side
from kglink.space import names as ngrams
from kglink.text.name_words import name_words

BUCKETS = 1 << 20
#: Names of an entity that are compared: its title and those seen most often.
MOST_NAMES = 24
#: Entities whose names are made vectors together, and rows that are multiplied together.
CHUNK_ENTITIES = 16_384
CHUNK_ROWS = 200_000

#: Names of an entity that words are learnt from.
MOST_LEARNT_NAMES = 12
#: Names that differ in more words than this are different names, not different words.
MOST_OTHER_WORDS = 3
#: Pairs of words that are kept while counting; beyond it the rare ones are forgotten.
MOST_WORD_PAIRS = 2_000_000
#: How often words must have stood for each other, and what the count is weighed against.
LEAST_COUNT = 1.0
DOUBT = 2.0

Spread = Literal["plain", "equivalents"]


class NamesChunk(NamedTuple):
    """Some entities with all their names; ``owners`` holds the entity of each name."""

    keys: list[str]
    names: list[str]
    owners: IntArray


class WordSpace:
    """Vectors of length one for names; made of two KBs by reading both once."""

    def __init__(self, kbs: PairedKBs) -> None:
        self.entities: dict[Side, int] = {"left": 0, "right": 0}
        self.bearers: dict[Side, IntArray] = {}
        """How many entities of each side use each bucket."""
        self._equivalents = Equivalents()
        grams, names = np.zeros(ngrams.BUCKETS, np.int64), 0
        for side in ("left", "right"):
            self.bearers[side] = np.zeros(BUCKETS, np.int64)
            for chunk in read_names(kbs, side):
                names += len(chunk.names)
                grams += np.bincount(
                    ngrams.gram_counts(chunk.names).indices, minlength=ngrams.BUCKETS
                )
                self.entities[side] += len(chunk.keys)
                starts = np.searchsorted(chunk.owners, np.arange(len(chunk.keys) + 1))
                used: list[int] = []
                for start, stop in pairwise(starts.tolist()):
                    own = chunk.names[start:stop]
                    self._equivalents.learn(own)
                    used += {bucket_of(word) for name in own for word in name_words(name)}
                self.bearers[side] += np.bincount(used, minlength=BUCKETS)
        every = sum(self.entities.values())
        known = self.bearers["left"] + self.bearers["right"]
        self._rarity = np.log1p(every / (1 + known)).astype(np.float32)
        self._gram_rarity = ngrams.inverse_frequency(grams, names)
        words = {word: bucket_of(word) for word in self._equivalents.words()}
        self._spread = self._equivalents.matrix(words, BUCKETS)

    def words(self, names: Sequence[str], spread: Spread = "equivalents") -> sp.csr_matrix:
        """A row of word weights for each folded name."""
        words = [set(name_words(name)) for name in names]
        counts = np.fromiter(map(len, words), np.int64, len(words))
        columns = np.fromiter(
            map(bucket_of, chain.from_iterable(words)), np.int64, int(counts.sum())
        )
        rows = np.repeat(np.arange(len(names)), counts)
        matrix = sp.csr_matrix(
            (self._rarity[columns], (rows, columns)), shape=(len(names), BUCKETS)
        )
        if spread == "equivalents":
            matrix = matrix + matrix @ self._spread
        lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        scaled = sp.diags(1 / np.where(lengths > 0, lengths, 1)) @ matrix
        return scaled.tocsr().astype(np.float32)

    def trigrams(self, names: Sequence[str]) -> sp.csr_matrix:
        """A row of trigram weights for each folded name."""
        return ngrams.weighted(ngrams.gram_counts(names), self._gram_rarity)


def read_names(kbs: PairedKBs, side: Side) -> Iterator[NamesChunk]:
    """All names of one side, chunk by chunk, in the order of its entities."""
    keys: list[str] = []
    names: list[str] = []
    owners: list[int] = []
    for entity in kbs.entities(side):
        own = folded_names(entity, MOST_NAMES)
        owners += [len(keys)] * len(own)
        names += own
        keys.append(entity.key)
        if len(keys) == CHUNK_ENTITIES:
            yield NamesChunk(keys, names, np.array(owners, np.int64))
            keys, names, owners = [], [], []
    if keys:
        yield NamesChunk(keys, names, np.array(owners, np.int64))


def bucket_of(word: str) -> int:
    """The column of a word."""
    return zlib.crc32(word.encode("utf-8", "surrogatepass")) % BUCKETS


def row_products(
    left: sp.csr_matrix, right: sp.csr_matrix, left_rows: IntArray, right_rows: IntArray
) -> FloatArray:
    """The inner product of each two rows."""
    found = np.empty(len(left_rows), np.float32)
    for start in range(0, len(found), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        products = left[left_rows[part]].multiply(right[right_rows[part]])
        found[part] = np.asarray(products.sum(axis=1)).ravel()
    return np.clip(found, 0, 1)


class Equivalents:
    """Counts how often one word of a name stands for another.

    Where two names of one entity differ in a few words (``renal cancer``, ``kidney cancer``), these
    words may stand for each other. How often they do, of all the times that one of them is kept,
    replaced or left out, is how far they count as one.
    """

    def __init__(self) -> None:
        self._pairs: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._seen: defaultdict[str, float] = defaultdict(float)

    def learn(self, names: Iterable[str]) -> None:
        """Take in the folded names of one entity; together they count as one lesson."""
        forms = dict.fromkeys(frozenset(name_words(name)) for name in names)
        distinct = list(itertools.islice(forms, MOST_LEARNT_NAMES))
        for one, other in itertools.combinations(distinct, 2):
            self._compare(one, other, 1 / (len(distinct) - 1))
        if len(self._pairs) > MOST_WORD_PAIRS:
            least = sorted(self._pairs.values())[len(self._pairs) // 2]
            kept = {pair: count for pair, count in self._pairs.items() if count > least}
            self._pairs = defaultdict(float, kept)

    def matrix(self, buckets: dict[str, int], size: int) -> sp.csr_matrix:
        """What each word (row) adds of other words (columns), from 0 to 1."""
        rows, columns, values = [], [], []
        for (one, other), count in self._pairs.items():
            if count >= LEAST_COUNT and one in buckets and other in buckets:
                for word, stand_in in ((one, other), (other, one)):
                    rows.append(buckets[word])
                    columns.append(buckets[stand_in])
                    values.append((count / (self._seen[word] + DOUBT)) ** 0.5)
        return sp.csr_matrix((np.array(values, np.float32), (rows, columns)), shape=(size, size))

    def words(self) -> set[str]:
        """The words that stand for another one."""
        kept = (pair for pair, count in self._pairs.items() if count >= LEAST_COUNT)
        return set(itertools.chain.from_iterable(kept))

    def _compare(self, one: frozenset[str], other: frozenset[str], weight: float) -> None:
        common, mine, theirs = one & other, one - other, other - one
        if not common or len(mine) > MOST_OTHER_WORDS or len(theirs) > MOST_OTHER_WORDS:
            return
        for word in common:
            self._seen[word] += weight
        if not mine or not theirs:
            for word in mine | theirs:
                self._seen[word] += weight
            return
        share = weight / max(len(mine), len(theirs))
        for word, stand_in in itertools.product(mine, theirs):
            self._seen[word] += share
            self._seen[stand_in] += share
            self._pairs[min(word, stand_in), max(word, stand_in)] += share
