"""Which sources of memory a text is like, by the words of their documents.

A text is compared with each source by a mixture of how often the source's documents use a word and
how often those of all sources do, each source counting the same. The ratio of these likelihoods is
the weight of the source. It is drawn towards 1, because the words of a text depend on each other,
and more so in short texts: a sentence hardly shows which corpus it is like.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

#: The weight of each source for a text, 1 for the one that is most like it; empty: all count alike.
Likeness = tuple[tuple[str, float], ...]

#: Words of a source that are kept: the most frequent.
MOST_WORDS = 20_000
#: Words of all sources that are mixed into those of each.
_MIXED = 1000
#: Weight of each word's ratio in a long text, and how many words give it half of that weight.
_OF_A_WORD, _FEW_WORDS = 0.2, 50
_TEXTS = 64
_WORD = re.compile(r"[^\W\d_]{3,40}")


def words_of(text: str) -> list[str]:
    """The words of a text that tell of its subject, in its order."""
    return _WORD.findall(text.lower())


class SourceWords:
    """How often each source of memory uses words."""

    def __init__(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        self._counts = counts
        self._totals = {source: sum(words.values()) for source, words in counts.items()}
        self._shares: dict[str, float] = defaultdict(float)
        for source, words in counts.items():
            for word, count in words.items():
                self._shares[word] += count / self._totals[source] / len(counts)
        self.likeness = lru_cache(maxsize=_TEXTS)(self._likeness)

    def _likeness(self, text: str) -> Likeness:
        known = [word for word in dict.fromkeys(words_of(text)) if word in self._shares]
        ratios = {source: self._ratio(source, known) for source in self._counts}
        best = max(ratios.values(), default=0.0)
        return tuple((source, round(math.exp(one - best), 1)) for source, one in ratios.items())

    def _ratio(self, source: str, words: Sequence[str]) -> float:
        """The logarithm of how much likelier this source uses some words than all sources do."""
        counts, total = self._counts[source], self._totals[source]
        return (
            _OF_A_WORD
            * len(words)
            / (len(words) + _FEW_WORDS)
            * sum(
                math.log((counts.get(word, 0) / self._shares[word] + _MIXED) / (total + _MIXED))
                for word in words
            )
        )
