"""Names as bags of words: found however they are inflected, spelled and ordered, and in part.

Each name is one number, the sum of the hashes of its words, so that a run of words in a text is
looked up by a sum. Beside whole names there are parts that belong to one thing alone (a head, a
beginning, a word), names written as one word, and words with one letter left out, by which
misspelt words are found.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from enum import IntEnum
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.files.runs import MOST_RECORDS, Hashes, SortedRuns, merged
from kglink.files.tables import ColumnWriter
from kglink.plugins import NameRow
from kglink.text.name_words import name_words
from kglink_plugins.detectors.dictionary.text_words import pieces_of, word_hash

Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]
Ranks = npt.NDArray[np.uint32]
Table = npt.NDArray[Any]

#: What a bag is: a whole name, a part of one entity's names, a name written as one word. And what
#: a word of a text is: short for a name of several words that stands before it in the text.
WHOLE, PART, JOINED, SHORT = 1, 2, 4, 8
#: Names of more words are found by their letters alone.
MOST_WORDS = 8
#: A part of fewer letters says nothing.
LEAST_PART = 3
#: Names of so many words may be written as one.
PAIR = 2
#: A word behind a number is its unit where it is so short, or ends the name ("8 pieces").
_LONGEST_UNIT = 2
#: Shorter words are not corrected.
LEAST_MISSPELT = 4
#: A larger vocabulary has a neighbour for every word.
MOST_CORRECTED = 300_000
#: The number of no name.
_NOTHING = 2**32 - 1

#: Which KBs the names are of, with the number of words in them.
KBS_FILE = "kbs.json"

#: KBs that share this part of the names of the smaller one are about the same things.
_RELATED = 0.2


class Agreed(IntEnum):
    """Whether several KBs have a name, in thirds."""

    NO = 0
    NOBODY_ASKED = 1
    """No other KB is about the same things."""
    YES = 3


class Bags(NamedTuple):
    """All bags in the order of their hashes, and the words of names in the order of theirs."""

    bags: Hashes
    bag_kinds: npt.NDArray[np.uint8]
    bag_agreed: npt.NDArray[np.uint8]
    """Whether several KBs have a name of these words, as `Agreed`."""
    bag_names: npt.NDArray[np.uint32]
    """A name of these words, or of which they are a part: its id in the trie of surfaces."""
    bag_kbs: npt.NDArray[np.uint32]
    """The KB of such names with the fewest words in its names, by its place in `KBS_FILE`."""
    words: Hashes
    word_names: npt.NDArray[np.uint32]
    """How many names have the word."""
    word_ends: npt.NDArray[np.uint32]
    """How many names end in it."""
    deleted: Hashes
    """Words of names with one letter left out."""
    deleted_from: npt.NDArray[np.uint32]
    """The word that each was made of; the number of words, where there are several."""


_BAG_COLUMNS: Mapping[str, npt.DTypeLike] = {
    "bags": np.uint64, "bag_kinds": np.uint8, "bag_agreed": np.uint8, "bag_names": np.uint32,
    "bag_kbs": np.uint32,
}  # fmt: skip
_WORD_COLUMNS: Mapping[str, npt.DTypeLike] = {
    "words": np.uint64, "word_names": np.uint32, "word_ends": np.uint32,
}  # fmt: skip


class BagWriter:
    """Collects names, sorts on disk what is known of their bags, and writes the files of `Bags`.

    Names are numbered as they come. The number of an entity is that of its first name.
    """

    def __init__(self, scratch: Path, most: int = MOST_RECORDS) -> None:
        self._most = most
        self._count = 0
        self._kbs: dict[str, int] = {}
        self._kb_words: list[int] = []
        self._kb_of_name = array("I")
        self._words = _WordCounts(scratch / "words", most)
        # Each with the number of a name.
        self._entities, self._wholes, self._joined, self._parts = (
            SortedRuns(scratch / what, [np.uint32], most)
            for what in ("entities", "wholes", "joined", "parts")
        )

    def add(self, rows: Sequence[NameRow]) -> None:
        """Add some names."""
        names: dict[int, list[str]] = {}
        cores: dict[int, list[str]] = {}
        for number, row in enumerate(rows, self._count):
            kb = self._kbs.setdefault(row.kb, len(self._kbs))
            if kb == len(self._kb_words):
                self._kb_words.append(0)
            self._kb_of_name.append(kb)
            named = name_words(row.folded)
            if not named or len(named) > MOST_WORDS:
                continue
            names[number] = named
            self._kb_words[kb] += len(set(named))
            core = _without_numbers(named)
            if PAIR <= len(core) < len(named):
                cores[number] = core
        own = [rows[number - self._count] for number in names]
        entities = (text_hash(f"{row.kb}\0{row.key or row.folded}") for row in own)
        pairs = {number: "".join(name) for number, name in names.items() if len(name) == PAIR}
        self._count += len(rows)
        self._words.add(names.values())
        self._entities.add(np.fromiter(entities, np.uint64, len(own)), list(names))
        self._joined.add(np.fromiter(map(word_hash, pairs.values()), np.uint64), list(pairs))
        self._wholes.add(self._with_parts(names), list(names))
        self._parts.add(self._with_parts(cores), list(cores))

    def _with_parts(self, names: Mapping[int, Sequence[str]]) -> Hashes:
        """Add the parts of some names by number; returns the bags of the whole names."""
        words = [word for name in names.values() for word in name]
        hashes = np.fromiter(map(word_hash, words), np.uint64, len(words))
        letters = np.fromiter(map(len, words), np.int64, len(words))
        numbers = np.fromiter(names, np.uint32, len(names))
        sizes = np.fromiter(map(len, names.values()), np.int64, len(names))
        starts = np.cumsum(sizes) - sizes
        wholes = np.empty(len(names), dtype=np.uint64)
        for size in range(1, MOST_WORDS + 1):
            own = np.flatnonzero(sizes == size)
            places = starts[own, None] + np.arange(size)
            parts, lengths = _parts_of(hashes[places]), _parts_of(letters[places])
            row, column = np.nonzero(lengths >= LEAST_PART)
            self._parts.add(parts[row, column], numbers[own[row]])
            wholes[own] = hashes[places].sum(axis=1, dtype=np.uint64)
        return wholes

    def write(self, folder: Path, ids: npt.NDArray[np.uint32]) -> None:
        """Write the bags of all names; ``ids`` numbers their surfaces."""
        self._words.write(folder)
        words = dict(zip(self._kbs, self._kb_words, strict=True))
        (folder / KBS_FILE).write_text(json.dumps(words), encoding="utf-8")
        by_size = np.argsort(self._kb_words, kind="stable").astype(np.uint32)
        # For each name the rank of its KB: the one with the fewest words is the first.
        ranks = np.argsort(by_size).astype(np.uint32)[np.frombuffer(self._kb_of_name, np.uint32)]
        things, agreed = self._owners()
        first = 0
        with ExitStack() as opened:
            columns = [
                opened.enter_context(ColumnWriter(folder / f"{name}.npy", kind))
                for name, kind in _BAG_COLUMNS.items()
            ]
            blocks = merged(self._wholes, self._joined, self._parts, most=self._most)
            for (bags, rows), (joined, pairs), (parts, holders) in blocks:
                wholes, at = np.unique(bags, return_index=True)
                named = {WHOLE: _Named(wholes, rows[at], _least(ranks[rows], at))}
                is_new = things[pairs] != _NOTHING
                new = pairs[is_new]
                found, at = np.unique(joined[is_new], return_index=True)
                named[JOINED] = _Named(found, new[at], _least(ranks[new], at))
                named[PART] = _unique(parts, things[holders], ranks[holders])
                block = _block(named, agreed[first : first + len(wholes)])
                first += len(wholes)
                found_columns: list[npt.ArrayLike] = [
                    *block[:3], ids[block[3]], by_size[block[4]],
                ]  # fmt: skip
                for column, values in zip(columns, found_columns, strict=True):
                    column.add(values)

    def _owners(self) -> tuple[Numbers, npt.NDArray[np.uint8]]:
        """For each name the entity that its parts are of, and for each whole bag its `Agreed`.

        A name whose entity has an earlier name with the same bag gets `_NOTHING`.
        """
        entities = np.zeros(self._count, dtype=np.uint32)
        for ((hashes, rows),) in merged(self._entities, most=self._most):
            _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
            entities[rows] = rows[first][inverse]
        kbs = np.frombuffer(self._kb_of_name, dtype=np.uint32)
        things = np.full(self._count, _NOTHING, dtype=np.uint32)
        sets: dict[frozenset[int], int] = {}
        found = [np.empty(0, dtype=np.uint32)]
        for ((bags, rows),) in merged(self._wholes, most=self._most):
            _, starts, bag = np.unique(bags, return_index=True, return_inverse=True)
            owners, first = entities[rows], rows[starts][bag]
            # Each entity counts once for a bag.
            order = np.lexsort((owners, bag))
            is_new = np.ones(len(order), dtype=np.bool_)
            is_new[1:] = (np.diff(bag[order]) != 0) | (np.diff(owners[order]) != 0)
            new = order[is_new]
            # What another KB calls the same counts as the same thing.
            same = kbs[rows] == kbs[first]
            things[rows[new]] = np.where(same, owners, entities[first])[new]
            found.append(self._sets_of(bag, kbs[rows], sets))
        of_bags = np.concatenate(found)
        counts = np.bincount(of_bags, minlength=len(sets)).tolist()
        agreed = _agreed(dict(zip(sets, counts, strict=True)))
        return things, np.array([agreed[one] for one in sets], dtype=np.uint8)[of_bags]

    def _sets_of(self, bags: Places, kbs: Ranks, sets: dict[frozenset[int], int]) -> Numbers:
        """For each of some bags the number of the set of KBs that have it."""
        pairs = np.unique(bags.astype(np.uint64) << np.uint64(32) | kbs)
        own = (pairs & np.uint64(_NOTHING)).astype(np.uint32)
        starts = np.unique(pairs >> np.uint64(32), return_index=True)[1]
        # The sum of the KBs' hashes tells one set from another.
        hashes = np.fromiter(map(text_hash, self._kbs), np.uint64, len(self._kbs))
        sums = np.add.reduceat(hashes[own], starts)
        _, first, inverse = np.unique(sums, return_index=True, return_inverse=True)
        stops = [*starts[1:], len(own)]
        some = (frozenset(own[starts[at] : stops[at]].tolist()) for at in first.tolist())
        return np.array([sets.setdefault(one, len(sets)) for one in some], dtype=np.uint32)[inverse]


class _WordCounts:
    """Counts in how many names each word stands, and how many end in it."""

    def __init__(self, stem: Path, most: int) -> None:
        self._counts: dict[str, list[int]] = {}
        self._has_run = False
        self._most = most
        # A word's own hash tells it from others of the same pieces; then its two counts.
        self._runs = SortedRuns(stem, [np.uint64, np.uint32, np.uint32], most)

    def add(self, names: Iterable[Sequence[str]]) -> None:
        """Count the words of some names."""
        counts = self._counts
        for named in names:
            for word in dict.fromkeys(named):
                counts.setdefault(word, [0, 0])[0] += 1
                for piece in pieces_of(word):
                    counts.setdefault(piece, [0, 0])
            counts[named[-1]][1] += 1
        if len(counts) > MOST_CORRECTED:
            self._write_run()
            self._has_run = True

    def write(self, folder: Path) -> None:
        """Write the words of `Bags`."""
        words = [] if self._has_run else sorted(self._counts, key=word_hash)
        self._write_run()
        count = 0
        with ExitStack() as opened:
            columns = [
                opened.enter_context(ColumnWriter(folder / f"{name}.npy", kind))
                for name, kind in _WORD_COLUMNS.items()
            ]
            for ((hashes, own, names, ends),) in merged(self._runs, most=self._most):
                order = np.lexsort((own, hashes))
                is_first = np.ones(len(order), dtype=np.bool_)
                is_first[1:] = np.diff(own[order]) != 0
                starts = np.flatnonzero(is_first)
                first = np.argsort(order[starts])  # words of one hash as they came
                count += len(first)
                columns[0].add(hashes[order[starts]][first])
                columns[1].add(np.add.reduceat(names[order], starts)[first])
                columns[2].add(np.add.reduceat(ends[order], starts)[first])
        deleted, places = _deletions(words, count)
        np.save(folder / "deleted.npy", deleted)
        np.save(folder / "deleted_from.npy", places)

    def _write_run(self) -> None:
        words, counts = self._counts, np.array([*self._counts.values()]).reshape(-1, 2)
        hashes, own = (np.fromiter(map(of, words), np.uint64) for of in (word_hash, text_hash))
        self._runs.add(hashes, own, counts[:, 0], counts[:, 1])
        self._counts = {}


def _agreed(names: Mapping[frozenset[int], int]) -> dict[frozenset[int], Agreed]:
    """Whether several KBs have the names of just these KBs; ``names`` counts those."""
    own: Counter[int] = Counter()
    shared: Counter[tuple[int, int]] = Counter()
    for kbs, count in names.items():
        for kb in kbs:
            own[kb] += count
        for pair in permutations(kbs, 2):
            shared[pair] += count
    related = {
        kb for (kb, other), count in shared.items() if count >= _RELATED * min(own[kb], own[other])
    }
    return {
        kbs: Agreed.YES if len(kbs) > 1 else Agreed.NO if kbs & related else Agreed.NOBODY_ASKED
        for kbs in names
    }


def _parts_of(words: Table) -> Table:
    """The beginnings, ends and single words of names, and each name without one of its words.

    A row of ``words`` has a number for each word of a name: its hash, or its letters.
    """
    sums = np.cumsum(words, axis=1, dtype=words.dtype)
    parts = np.concatenate([sums[:, :-1], words], axis=1)
    return np.concatenate([parts, sums[:, -1:] - parts], axis=1)


def _without_numbers(named: list[str]) -> list[str]:
    """A name without its models and sizes: "quick charger" of "quick charger QC3 36 V"."""
    last = len(named) - 1
    return [
        word
        for at, word in enumerate(named)
        if not any(map(str.isdigit, word))
        and not (at and named[at - 1].isdigit() and (at == last or len(word) <= _LONGEST_UNIT))
    ]


class _Named(NamedTuple):
    """Bags of one kind, the first name of each, and the least rank of a KB that has one."""

    bags: Hashes
    names: Numbers
    ranks: Ranks


def _least(ranks: Ranks, starts: Places) -> Ranks:
    """The least rank of each run that begins at one of ``starts``."""
    return np.minimum.reduceat(ranks, starts) if len(starts) else ranks


def _unique(parts: Hashes, things: Numbers, ranks: Ranks) -> _Named:
    """The parts of the names of one thing alone, with that; ``parts`` are in order."""
    is_known = things != _NOTHING
    found, starts = np.unique(parts[is_known], return_index=True)
    least = np.minimum.reduceat(things[is_known], starts)
    only = least == np.maximum.reduceat(things[is_known], starts)
    return _Named(found[only], least[only], _least(ranks[is_known], starts)[only])


def _block(
    named: Mapping[int, _Named], agreed: npt.NDArray[np.uint8]
) -> tuple[Hashes, npt.NDArray[np.uint8], npt.NDArray[np.uint8], Numbers, Ranks]:
    """Bags in order: kinds, `Agreed`, the first name that each is of, the least rank of a KB.

    ``named``: the bags of each kind. ``agreed`` is of the whole ones.
    """
    bags = np.unique(np.concatenate([own.bags for own in named.values()]))
    kinds = np.zeros(len(bags), dtype=np.uint8)
    names = np.full(len(bags), _NOTHING, dtype=np.uint32)
    ranks = np.full(len(bags), _NOTHING, dtype=np.uint32)
    for kind, (own, first, of_kbs) in named.items():
        places = np.searchsorted(bags, own)
        kinds[places] |= kind
        ranks[places] = np.minimum(ranks[places], of_kbs)
        # Part of a name it is called only where no whole name is this.
        least = np.minimum(names[places], first)
        is_new = names[places] == _NOTHING
        names[places] = np.where(is_new, first, names[places]) if kind == PART else least
    of_bags = np.full(len(bags), Agreed.NO, dtype=np.uint8)
    of_bags[np.searchsorted(bags, named[WHOLE].bags)] = agreed
    return bags, kinds, of_bags, names, ranks


def deletions(word: str) -> list[int]:
    """Hashes of a word, and of all that is left of it without one of its inner letters.

    Its last letter tells inflections apart, not misspelt words.
    """
    shorter = (f"{word[:at]}{word[at + 1 :]}" for at in range(1, len(word) - 1))
    return [text_hash(f"-{one}") for one in (word, *shorter)]


def _deletions(vocabulary: Sequence[str], count: int) -> tuple[Hashes, Numbers]:
    """Hashes of words with a letter left out, and the places of the words.

    Where several words are meant the place is ``count``, the number of all words.
    """
    found, places = array("Q"), array("I")
    for at, word in enumerate(vocabulary):
        if len(word) >= LEAST_MISSPELT and word.isalpha():
            shorter = set(deletions(word))
            found.extend(shorter)
            places.extend([at] * len(shorter))
    hashes, first, counts = np.unique(
        np.frombuffer(found, np.uint64), return_index=True, return_counts=True
    )
    own = np.frombuffer(places, np.uint32)[first]
    return hashes, np.where(counts == 1, own, count).astype(np.uint32)
