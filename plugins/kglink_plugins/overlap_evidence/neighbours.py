"""Neighbours in the joint space, and descriptions and types that mean the same to the encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, islice
from typing import NamedTuple
from unicodedata import name

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.overlap.neighbours import RowPairs, nearest_neighbours
from kglink.overlap.weigh import cosines
from kglink.plugins import EntityPair, EntityVectors, PairedKBs, Side
from kglink.text.fold import fold
from kglink.text.sentences import first_sentences
from kglink_plugins.overlap_evidence.word_blocks import quotas
from kglink_plugins.overlap_evidence.word_space import MOST_NAMES
from kglink_plugins.plugin import NeighbourSettings

#: The vectors of one KB: of its names, and of its texts where the space has them.
_KB = tuple[EntityVectors, EntityVectors | None]


class _Rows(NamedTuple):
    """Vectors of some entities, each entity's once; pair i has the entity ``places[i]``."""

    matrix: FloatArray
    starts: IntArray
    counts: IntArray
    places: IntArray

    @property
    def firsts(self) -> IntArray:
        """The first row of each pair's entity."""
        return self.starts[self.places]

    @property
    def numbers(self) -> IntArray:
        """How many rows each pair's entity has."""
        return self.counts[self.places]

    @property
    def means(self) -> FloatArray:
        """The mean of each pair's rows, of length one."""
        sums = np.add.reduceat(self.matrix, self.starts)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        means = (sums / np.where(lengths > 0, lengths, 1))[self.places]
        return means.astype(np.float32)


class NeighbourEvidence:
    """Proposes entities whose names are near each other; hubs, near to all, are held back."""

    second_pass = False

    def __init__(self, settings: NeighbourSettings) -> None:
        self._settings = settings
        self._opened: dict[Side, _KB | None] = {}

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """The nearest of each entity by the cosine of names, less its hubness (CSLS)."""
        left, right = kbs.vectors("left", "alias"), kbs.vectors("right", "alias")
        if left is None or right is None:
            return
        counts = len(left.keys), len(right.keys)
        if not min(counts):
            return
        of_small, of_large = quotas(self._settings.neighbours, min(counts), max(counts))
        of_left, of_right = (of_small, of_large)[:: 1 if counts[0] <= counts[1] else -1]
        found = nearest_neighbours(
            left,
            right,
            k=max(of_small, 2),
            device=kbs.device,
            spread=kbs.spread,
            kept=kbs.kept,
            progress=kbs.report,
        )
        kept = (found.left_rank < of_left) | (found.right_rank < of_right)
        pairs = zip(found.left[kept].tolist(), found.right[kept].tolist(), strict=True)
        for one, other in pairs:
            yield left.keys[one], right.keys[other]

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """The values of pairs, all of them cosines.

        ``near_names``: of the two nearest names; ``all_names``: of the means of all names;
        ``texts``: of the texts; ``name_in_text``: of a name of the one and the text of the other.
        """
        left, right = self._open(kbs, "left"), self._open(kbs, "right")
        values: list[Mapping[str, float]] = [{} for _ in pairs]
        if left is None or right is None:
            return values
        lefts = left[0].find([pair.left.key for pair in pairs])
        rights = right[0].find([pair.right.key for pair in pairs])
        there = np.flatnonzero((lefts >= 0) & (rights >= 0))
        if len(there):
            columns = _cosines(left, right, lefts[there], rights[there])
            rows = zip(*(column.tolist() for column in columns.values()), strict=True)
            for at, row in zip(there.tolist(), rows, strict=True):
                values[at] = dict(zip(columns, row, strict=True))
        return values

    def _open(self, kbs: PairedKBs, side: Side) -> _KB | None:
        if side not in self._opened:
            names = kbs.vectors(side, "alias")
            self._opened[side] = None if names is None else (names, kbs.vectors(side, "text"))
        return self._opened[side]


def _cosines(left: _KB, right: _KB, lefts: IntArray, rights: IntArray) -> dict[str, FloatArray]:
    (left_names, of_left), (right_names, of_right) = left, right
    one, other = _rows(left_names, lefts), _rows(right_names, rights)
    columns = {
        "near_names": _best(one, other),
        "all_names": np.einsum("nd,nd->n", one.means, other.means),
    }
    if of_left is not None and of_right is not None:
        left_texts, right_texts = _rows(of_left, lefts), _rows(of_right, rights)
        columns["texts"] = _best(left_texts, right_texts)
        columns["name_in_text"] = np.maximum(_best(one, right_texts), _best(left_texts, other))
    return {name: np.clip(column, -1, 1) for name, column in columns.items()}


def _rows(vectors: EntityVectors, entities: IntArray) -> _Rows:
    """The first rows of each entity."""
    distinct, places = np.unique(entities, return_inverse=True)
    first = np.searchsorted(vectors.owners, distinct)
    counts = np.searchsorted(vectors.owners, distinct, side="right") - first
    counts = np.minimum(counts, MOST_NAMES)
    starts = np.cumsum(counts) - counts
    numbers = np.repeat(first - starts, counts) + np.arange(int(counts.sum()))
    return _Rows(vectors.rows(numbers).astype(np.float32), starts, counts, places)


def _best(one: _Rows, other: _Rows) -> FloatArray:
    """The largest product of any two rows of each pair."""
    pairs = RowPairs.of(one.firsts, one.numbers, other.firsts, other.numbers)
    return pairs.best_products(lambda rows: one.matrix[rows], lambda rows: other.matrix[rows])


#: Descriptions of one thing in two KBs rarely have a smaller cosine.
_LEAST_ALIKE = 0.5
#: A description of at most so many letters is a phrase ("republic in South Asia"), and one of twice
#: as many is more than a phrase.
_PHRASE = 80
#: A sentence with fewer letters may be none: "Warner Bros."
_LEAST_SENTENCE = 40
#: Letters that say in which script a description is.
_LETTERS = 20
_KANA = frozenset(("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH"))


class DescriptionEvidence:
    """Weighs the cosine of descriptions where both entities have one in the same script."""

    second_pass = False

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Nothing: descriptions are compared where something else proposes a pair."""
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """``description``: the cosine; ``descriptions_differ``: by how much it is below a half."""
        are_described = [
            bool(pair.left.description and pair.right.description)
            and len({_script(one.description) for one in pair} - {""}) < 2
            for pair in pairs
        ]
        texts = [text for pair in compress(pairs, are_described) for text in _comparable(pair)]
        found = iter(cosines(kbs, texts))
        values: list[Mapping[str, float]] = []
        for is_described in are_described:
            if is_described:
                cosine = next(found)
                differ = max(0.0, _LEAST_ALIKE - cosine)
                values.append({"description": cosine, "descriptions_differ": differ})
            else:
                values.append({})
        return values


def _script(text: str) -> str:
    """The script that most of the first letters are of, by their names in Unicode; empty: of none.

    Chinese signs and kana are one: Japanese writes both.
    """
    if text.isascii():
        return "LATIN"
    scripts = (name(sign, "").partition(" ")[0] for sign in text if sign.isalpha())
    counts = Counter("CJK" if one in _KANA else one for one in islice(scripts, _LETTERS))
    return max(counts, key=counts.__getitem__, default="")


def _comparable(pair: EntityPair) -> list[str]:
    """Two descriptions; of a long one beside a phrase only the first sentence says the same."""
    texts = [one.description for one in pair]
    short, long = sorted(map(len, texts))
    if short > _PHRASE or long < 2 * _PHRASE:
        return texts
    return [_first_sentence(text) for text in texts]


def _first_sentence(text: str) -> str:
    """The first sentence, with the next ones where it may have ended at an abbreviation."""
    few = (first_sentences(text, count) for count in (1, 2, 3))
    return next((one for one in few if len(one) >= _LEAST_SENTENCE), text)


class TypeEvidence:
    """Weighs the cosine of the types where both entities have one; proposes nothing."""

    second_pass = False

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], float] = {}

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Nothing: too many entities are of one type."""
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """``type``: 1 where the types are written alike, else the cosine of their words."""
        types = [(fold(pair.left.type), fold(pair.right.type)) for pair in pairs]
        new = [one for one in dict.fromkeys(types) if all(one) and one not in self._known]
        # KBs have few types, so each two are compared once.
        found = cosines(kbs, [text for one in new for text in one])
        self._known.update(zip(new, found, strict=True))
        return [
            {"type": 1.0 if one == other else self._known[one, other]} if one and other else {}
            for one, other in types
        ]
