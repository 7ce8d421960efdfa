"""Words that KBs use for each other, learnt from the names of each entity.

Where two names of one entity differ in a few words (``renal cancer``, ``kidney cancer``), these
words may stand for each other. How often they do, of all the times that one of them is kept,
replaced or left out, is how far they count as one.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp

from kglink.text.name_tokens import name_words

#: Names of an entity that are compared with each other.
MOST_NAMES = 12
#: Names that differ in more words than this are different names, not different words.
MOST_WORDS = 3
#: Pairs of words that are kept while counting; beyond it the rare ones are forgotten.
MOST_PAIRS = 2_000_000
#: How often words must have stood for each other, and what the count is weighed against.
LEAST_COUNT = 1.0
DOUBT = 2.0


class Equivalents:
    """Counts how often one word of a name stands for another."""

    def __init__(self) -> None:
        self._pairs: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._seen: defaultdict[str, float] = defaultdict(float)

    def learn(self, names: Iterable[str]) -> None:
        """Take in the folded names of one entity; together they count as one lesson."""
        forms = dict.fromkeys(frozenset(name_words(name)) for name in names)
        distinct = list(itertools.islice(forms, MOST_NAMES))
        for one, other in itertools.combinations(distinct, 2):
            self._compare(one, other, 1 / (len(distinct) - 1))
        if len(self._pairs) > MOST_PAIRS:
            self._forget()

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
        if not common or len(mine) > MOST_WORDS or len(theirs) > MOST_WORDS:
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

    def _forget(self) -> None:
        least = sorted(self._pairs.values())[len(self._pairs) // 2]
        kept = {pair: n for pair, n in self._pairs.items() if n > least}
        self._pairs = defaultdict(float, kept)
