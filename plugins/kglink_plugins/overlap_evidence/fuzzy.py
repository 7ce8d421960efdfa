"""Names that are alike but not the same: in their words, in their letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz, process

from kglink.errors import PluginError
from kglink.plugins import EntityPair, PairedKBs
from kglink.text.name_tokens import name_words, numbers_of
from kglink_plugins.overlap_evidence.name_pairs import NamePairs
from kglink_plugins.overlap_evidence.settings import FuzzySettings
from kglink_plugins.overlap_evidence.word_blocks import similar_names
from kglink_plugins.overlap_evidence.word_space import WordSpace, row_products


class FuzzyEvidence:
    """Proposes entities whose names have rare words in common; weighs how alike names are."""

    second_pass = False

    def __init__(self, settings: FuzzySettings) -> None:
        self._settings = settings
        self._space: WordSpace | None = None

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Pairs whose names share words that few bear."""
        self._space = WordSpace(kbs)
        if self._settings.neighbours:
            yield from similar_names(
                kbs,
                self._space,
                k=self._settings.neighbours,
                max_block=self._settings.max_block,
            )

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """The values of pairs, each that of their two names that are most alike in it.

        ``same_words``: the words are the same in any order; ``words``: the cosine of weighted
        words, where a word counts as those that these KBs use for it; ``other_numbers``: how far
        that falls when numbers and single letters must agree; ``letters``: the cosine of weighted
        trigrams; ``spelling``: the edit similarity of the words in alphabetical order.
        """
        if self._space is None:
            raise PluginError("fuzzy names are weighed after they were proposed")
        if not pairs:
            return []
        names = NamePairs.of(pairs)
        rows = names.left_rows, names.right_rows
        left_words = [name_words(name) for name in names.lefts]
        right_words = [name_words(name) for name in names.rights]
        words, letters = (
            row_products(vectors(names.lefts), vectors(names.rights), *rows)
            for vectors in (self._space.words, self._space.trigrams)
        )
        same_words = _equal(
            [frozenset(one) for one in left_words], [frozenset(one) for one in right_words], *rows
        )
        same_numbers = _equal(
            [numbers_of(one) for one in left_words], [numbers_of(one) for one in right_words], *rows
        )
        best_words = names.best(words)
        columns = {
            "same_words": names.best(same_words),
            "words": best_words,
            "other_numbers": best_words - names.best(np.where(same_numbers, words, 0)),
            "letters": names.best(letters),
            "spelling": names.best(_spelling(left_words, right_words, *rows)),
        }
        return [
            dict(zip(columns, values, strict=True))
            for values in zip(*(column.tolist() for column in columns.values()), strict=True)
        ]


def _equal(
    left: Sequence[frozenset[str]],
    right: Sequence[frozenset[str]],
    left_rows: npt.NDArray[np.int64],
    right_rows: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Whether two sets of words are the same and not empty."""
    numbers: dict[frozenset[str], int] = {}
    lefts, rights = (
        np.array([numbers.setdefault(one, len(numbers)) for one in side], np.int64)
        for side in (left, right)
    )
    found: npt.NDArray[np.bool_] = lefts[left_rows] == rights[right_rows]
    return found


def _spelling(
    left: Sequence[list[str]],
    right: Sequence[list[str]],
    left_rows: npt.NDArray[np.int64],
    right_rows: npt.NDArray[np.int64],
) -> npt.NDArray[np.float32]:
    lefts = [" ".join(sorted(words)) for words in left]
    rights = [" ".join(sorted(words)) for words in right]
    found = process.cpdist(
        [lefts[row] for row in left_rows],
        [rights[row] for row in right_rows],
        scorer=fuzz.ratio,
        dtype=np.float32,
    )
    return (np.asarray(found) / 100).astype(np.float32)
