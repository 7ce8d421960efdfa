"""Names that are alike but not the same: in their words, in their letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz, process

from kglink.arrays import IntArray
from kglink.errors import PluginError
from kglink.overlap.names import folded_names
from kglink.overlap.neighbours import RowPairs
from kglink.plugins import EntityPair, PairedKBs
from kglink.records import Entity
from kglink.text.name_words import name_words, numbers_of
from kglink_plugins.overlap_evidence.word_blocks import similar_names
from kglink_plugins.overlap_evidence.word_space import MOST_NAMES, WordSpace, row_products
from kglink_plugins.plugin import FuzzySettings


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
                kbs, self._space, k=self._settings.neighbours, max_block=self._settings.max_block
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
        rows, best = names.rows[:2], names.rows.best
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
        ordered = [
            [" ".join(sorted(words)) for words in side] for side in (left_words, right_words)
        ]
        spelling = process.cpdist(
            *([side[row] for row in own] for side, own in zip(ordered, rows, strict=True)),
            scorer=fuzz.ratio,
            dtype=np.float32,
        )
        has_words = np.array([bool(one) for one in left_words])[rows[0]]  # "???" has none
        best_words = best(words)
        columns = {
            "same_words": best(same_words & has_words),
            "words": best_words,
            "other_numbers": best_words - best(np.where(same_numbers, words, 0)),
            "letters": best(letters),
            "spelling": best(np.asarray(spelling) * has_words / 100),
        }
        return [
            dict(zip(columns, values, strict=True))
            for values in zip(*(column.tolist() for column in columns.values()), strict=True)
        ]


def _equal(
    left: Sequence[frozenset[str]],
    right: Sequence[frozenset[str]],
    left_rows: IntArray,
    right_rows: IntArray,
) -> npt.NDArray[np.bool_]:
    """Whether two sets of words are the same."""
    numbers: dict[frozenset[str], int] = {}
    lefts, rights = (
        np.array([numbers.setdefault(one, len(numbers)) for one in side], np.int64)
        for side in (left, right)
    )
    found: npt.NDArray[np.bool_] = lefts[left_rows] == rights[right_rows]
    return found


class NamePairs(NamedTuple):
    """The names of both sides, each entity's once, and the rows of all pairs of names.

    An entity without a name has one row that is empty.
    """

    lefts: list[str]
    rights: list[str]
    rows: RowPairs

    @classmethod
    def of(cls, pairs: Sequence[EntityPair]) -> NamePairs:
        """The names of some pairs of entities."""
        lefts, *left_rows = _listed([pair.left for pair in pairs])
        rights, *right_rows = _listed([pair.right for pair in pairs])
        return cls(lefts, rights, RowPairs.of(*left_rows, *right_rows))


def _listed(entities: Sequence[Entity]) -> tuple[list[str], IntArray, IntArray]:
    """All names, and for each entity where its names begin and how many they are."""
    names: list[str] = []
    places: dict[str, tuple[int, int]] = {}
    for entity in entities:
        if entity.key not in places:
            own = folded_names(entity, MOST_NAMES) or [""]
            places[entity.key] = (len(names), len(own))
            names += own
    found = np.array([places[entity.key] for entity in entities], np.int64).reshape(-1, 2)
    return names, found[:, 0], found[:, 1]
