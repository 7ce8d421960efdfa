"""Names as bags of words: found however they are inflected, spelled and ordered, and in part.

Each name is one number, the sum of the hashes of its words, so that a run of words in a text is
looked up by a sum. Beside whole names there are parts that belong to one thing alone (a head, a
beginning, a word), names written as one word, and words with one letter left out, by which
misspelt words are found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import accumulate, permutations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.plugins import NameRow
from kglink.text.name_words import name_words
from kglink_plugins.detectors.dictionary.text_words import MASK, bag_hash, pieces_of, word_hash

Hashes = npt.NDArray[np.uint64]

#: What a bag is: a whole name, a part of one entity's names, a name written as one word. And what
#: a word of a text is: short for a name of several words that stands before it in the text.
WHOLE, PART, JOINED, SHORT = 1, 2, 4, 8
#: Names of more words are found by their letters alone.
MOST_WORDS = 8
#: A part of fewer letters says nothing.
LEAST_PART = 3
_PAIR = 2
#: A word behind a number is its unit where it is so short, or ends the name ("8 pieces").
_LONGEST_UNIT = 2
#: Shorter words are not corrected.
LEAST_MISSPELT = 4
#: A larger vocabulary has a neighbour for every word.
_MOST_CORRECTED = 300_000


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
    words: Hashes
    word_names: npt.NDArray[np.uint32]
    """How many names have the word."""
    word_ends: npt.NDArray[np.uint32]
    """How many names end in it."""
    deleted: Hashes
    """Words of names with one letter left out."""
    deleted_from: npt.NDArray[np.uint32]
    """The word that each was made of; the number of words, where there are several."""


def compile_bags(rows: Iterable[NameRow], id_of: Callable[[str], int]) -> Bags:
    """The bags of all names; ``id_of`` numbers the surfaces."""
    entities: dict[tuple[str, str], int] = {}
    owners: dict[int, dict[int, None]] = {}  # in the order in which they came
    names: dict[int, str] = {}
    titles: list[str] = []
    kbs: list[str] = []
    kinds: dict[int, int] = {}
    parts: set[tuple[int, int]] = set()
    vocabulary: dict[str, list[int]] = {}
    for row in rows:
        named = name_words(row.folded)
        if not named or len(named) > MOST_WORDS:
            continue
        entity = entities.setdefault((row.kb, row.key or row.folded), len(entities))
        if entity == len(titles):
            titles.append(row.surface)
            kbs.append(row.kb)
        for word in set(named):
            vocabulary.setdefault(word, [0, 0])[0] += 1
            for piece in pieces_of(word):
                vocabulary.setdefault(piece, [0, 0])
        vocabulary[named[-1]][1] += 1
        bag = bag_hash(named)
        names.setdefault(bag, row.surface)
        bearers = owners.setdefault(bag, {})
        if entity in bearers:
            continue
        kinds[bag] = kinds.get(bag, 0) | WHOLE
        # What another KB calls the same counts as the same thing.
        first = next(iter(bearers), entity)
        thing = entity if kbs[first] == row.kb else first
        bearers[entity] = None
        parts.update((part, thing) for part in _parts(named))
        if len(named) == _PAIR:
            whole = bag_hash(["".join(named)])
            kinds[whole] = kinds.get(whole, 0) | JOINED
            names.setdefault(whole, row.surface)
    for bag, entity in _unique(parts):
        kinds[bag] = kinds.get(bag, 0) | PART
        names.setdefault(bag, titles[entity])
    order = sorted(kinds)

    def kbs_of(bag: int) -> frozenset[str]:
        return frozenset(kbs[entity] for entity in owners.get(bag, ()))

    agreed = _agreed(Counter(map(kbs_of, owners)))
    words = sorted(vocabulary, key=word_hash)
    deleted, deleted_from = _deletions(words)
    return Bags(
        np.array(order, dtype=np.uint64),
        np.array([kinds[bag] for bag in order], dtype=np.uint8),
        np.array([agreed.get(kbs_of(bag), Agreed.NO) for bag in order], dtype=np.uint8),
        np.array([id_of(names[bag]) for bag in order], dtype=np.uint32),
        np.array([word_hash(word) for word in words], dtype=np.uint64),
        np.array([vocabulary[word][0] for word in words], dtype=np.uint32),
        np.array([vocabulary[word][1] for word in words], dtype=np.uint32),
        deleted,
        deleted_from,
    )


def _agreed(names: Mapping[frozenset[str], int]) -> dict[frozenset[str], Agreed]:
    """Whether several KBs have the names of just these KBs; ``names`` counts those."""
    own: Counter[str] = Counter()
    shared: Counter[tuple[str, str]] = Counter()
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


def _parts(named: list[str]) -> set[int]:
    """The parts of a name, and of what is left of it without models and sizes."""
    core = _without_numbers(named)
    if not _PAIR <= len(core) < len(named):
        return _parts_of(named)
    return {*_parts_of(named), bag_hash(core), *_parts_of(core)}


def _parts_of(named: list[str]) -> set[int]:
    """The beginnings, the ends and the single words of a name, and all of it but for one word."""
    hashes = list(map(word_hash, named))
    letters = list(map(len, named))
    sums, lengths = list(accumulate(hashes)), list(accumulate(letters))
    whole, size = sums[-1], lengths[-1]
    parts = [*zip(sums[:-1], lengths[:-1], strict=True), *zip(hashes, letters, strict=True)]
    parts += [(whole - part, size - length) for part, length in parts]
    return {part & MASK for part, length in parts if length >= LEAST_PART}


def _without_numbers(named: list[str]) -> list[str]:
    """A name without its models and sizes: "quick charger" of "quick charger QC3 36 V"."""
    last = len(named) - 1
    return [
        word
        for at, word in enumerate(named)
        if not any(map(str.isdigit, word))
        and not (at and named[at - 1].isdigit() and (at == last or len(word) <= _LONGEST_UNIT))
    ]


def _unique(parts: set[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of the names of one thing alone, with that entity."""
    bags = np.fromiter((part for part, _ in parts), np.uint64, len(parts))
    owners = np.fromiter((entity for _, entity in parts), np.int64, len(parts))
    found, first, counts = np.unique(bags, return_index=True, return_counts=True)
    only = counts == 1
    return zip(found[only].tolist(), owners[first[only]].tolist(), strict=True)


def deletions(word: str) -> list[int]:
    """Hashes of a word, and of all that is left of it without one of its inner letters.

    Its last letter tells inflections apart, not misspelt words.
    """
    shorter = (f"{word[:at]}{word[at + 1 :]}" for at in range(1, len(word) - 1))
    return [text_hash(f"-{one}") for one in (word, *shorter)]


def _deletions(vocabulary: list[str]) -> tuple[Hashes, npt.NDArray[np.uint32]]:
    pairs = [
        (deleted, at)
        for at, word in enumerate(vocabulary)
        if len(word) >= LEAST_MISSPELT and word.isalpha()
        for deleted in set(deletions(word))
    ]
    if len(vocabulary) > _MOST_CORRECTED:
        pairs = []
    both = np.array(sorted(pairs), dtype=np.uint64).reshape(-1, 2)
    hashes, first, counts = np.unique(both[:, 0], return_index=True, return_counts=True)
    return hashes, np.where(counts == 1, both[first, 1], len(vocabulary)).astype(np.uint32)
