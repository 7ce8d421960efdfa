"""Compiled aliases in the plain way: all names in memory, in dictionaries of Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, permutations
from typing import Any

from kglink.plugins import NameRow
from kglink.text.name_words import name_words
from kglink_plugins.detectors.dictionary.bags import (
    JOINED,
    LEAST_MISSPELT,
    LEAST_PART,
    MOST_WORDS,
    PART,
    WHOLE,
    Agreed,
    deletions,
)
from kglink_plugins.detectors.dictionary.compiled import ARTICLE, is_text
from kglink_plugins.detectors.dictionary.guard import Guard, shape_of
from kglink_plugins.detectors.dictionary.text_words import MASK, bag_hash, pieces_of, word_hash


def plain_keys(rows: Sequence[NameRow], guard: Guard) -> dict[str, tuple[int, int]]:
    """The count and the shape of each folded alias that a text can match."""
    entries: dict[str, tuple[int, int]] = {}
    for row in rows:
        count, shape = entries.get(row.folded, (0, guard.word_shape(row.folded)))
        entries[row.folded] = count + row.count, shape | shape_of(row.surface)
    return {
        key: (min(count, 2**32 - 1), shape)
        for key, (count, shape) in entries.items()
        if not guard.never(shape)
    }


def plain_articled(rows: Sequence[NameRow]) -> set[str]:
    """The names with an article whose entities do not bear the rest of them."""
    own: dict[tuple[str, str], set[str]] = {}
    names: dict[tuple[str, str, str], str] = {}
    for row in rows:
        own.setdefault((row.kb, row.key), set()).add(row.folded)
        if article := ARTICLE.match(row.folded):
            names[row.kb, row.key, row.folded[article.end() :]] = row.folded
    return {name for (kb, key, rest), name in names.items() if rest not in own[kb, key]}


def plain_bags(  # noqa: C901, PLR0912, PLR0915 - the plain way is one function to read from top to bottom
    rows: Sequence[NameRow], most_corrected: int
) -> dict[str, list[Any]]:
    """The arrays of `Bags`, of names the surfaces."""
    entities: dict[tuple[str, str], int] = {}
    owners: dict[int, dict[int, None]] = {}
    titles: list[str] = []
    kbs: list[str] = []
    names: dict[int, str] = {}
    kinds: Counter[int] = Counter()
    holders: dict[int, set[int]] = {}
    vocabulary: dict[str, list[int]] = {}
    kb_words: dict[str, int] = {}
    bearing: dict[int, set[str]] = {}
    held_by: dict[int, set[str]] = {}
    for row in rows:
        named = name_words(row.folded)
        if is_text(row.surface):
            kb_words.setdefault(row.kb, 0)
        if not is_text(row.surface) or not named or len(named) > MOST_WORDS:
            continue
        entity = entities.setdefault((row.kb, row.key or row.folded), len(entities))
        if entity == len(titles):
            titles.append(row.surface)
            kbs.append(row.kb)
        kb_words[row.kb] += len(set(named))
        for word in dict.fromkeys(named):
            vocabulary.setdefault(word, [0, 0])[0] += 1
            for piece in pieces_of(word):
                vocabulary.setdefault(piece, [0, 0])
        vocabulary[named[-1]][1] += 1
        bag = bag_hash(named)
        names.setdefault(bag, row.surface)
        bearers = owners.setdefault(bag, {})
        if entity in bearers:
            continue
        kinds[bag] |= WHOLE
        bearing.setdefault(bag, set()).add(row.kb)
        first = next(iter(bearers), entity)
        bearers[entity] = None
        for part in _parts(named):
            holders.setdefault(part, set()).add(entity if kbs[first] == row.kb else first)
            held_by.setdefault(part, set()).add(row.kb)
        if len(named) == 2:
            whole = bag_hash(["".join(named)])
            kinds[whole] |= JOINED
            names.setdefault(whole, row.surface)
            bearing.setdefault(whole, set()).add(row.kb)
    for bag, things in holders.items():
        if len(things) == 1:
            kinds[bag] |= PART
            names.setdefault(bag, titles[min(things)])
            bearing.setdefault(bag, set()).update(held_by[bag])
    order = sorted(kinds)
    sets = {bag: frozenset(kbs[one] for one in own) for bag, own in owners.items()}
    words = sorted(vocabulary, key=word_hash)
    meant: dict[int, list[int]] = {}
    for at, word in enumerate(words if len(words) <= most_corrected else ()):
        if len(word) >= LEAST_MISSPELT and word.isalpha():
            for shorter in set(deletions(word)):
                meant.setdefault(shorter, []).append(at)
    return {
        "bags": order,
        "bag_kinds": [kinds[bag] for bag in order],
        "bag_agreed": [_agreed(sets.get(bag), sets) for bag in order],
        "bag_names": [names[bag] for bag in order],
        "bag_kbs": [
            min(bearing[bag], key=lambda kb: (kb_words[kb], list(kb_words).index(kb)))
            for bag in order
        ],
        "words": [word_hash(word) for word in words],
        "word_names": [vocabulary[word][0] for word in words],
        "word_ends": [vocabulary[word][1] for word in words],
        "deleted": sorted(meant),
        "deleted_from": [
            own[0] if len(own) == 1 else len(words) for _, own in sorted(meant.items())
        ],
    }


def _agreed(own: frozenset[str] | None, sets: dict[int, frozenset[str]]) -> Agreed:
    """Whether several KBs have the names of some KBs, told from those of all names."""
    if own is None:
        return Agreed.NO
    count = Counter(kb for kbs in sets.values() for kb in kbs)
    shared = Counter(pair for kbs in sets.values() for pair in permutations(kbs, 2))
    related = {
        kb for (kb, other), both in shared.items() if both >= 0.2 * min(count[kb], count[other])
    }
    return Agreed.YES if len(own) > 1 else Agreed.NO if own & related else Agreed.NOBODY_ASKED


def _parts(named: list[str]) -> set[int]:
    """The parts of a name, and of what is left of it without models and sizes."""
    last = len(named) - 1
    core = [
        word
        for at, word in enumerate(named)
        if not any(map(str.isdigit, word))
        and not (at and named[at - 1].isdigit() and (at == last or len(word) <= 2))
    ]
    if not 2 <= len(core) < len(named):
        return _parts_of(named)
    return {*_parts_of(named), bag_hash(core), *_parts_of(core)}


def _parts_of(named: list[str]) -> set[int]:
    hashes, letters = list(map(word_hash, named)), list(map(len, named))
    sums, lengths = list(accumulate(hashes)), list(accumulate(letters))
    parts = [*zip(sums[:-1], lengths[:-1], strict=True), *zip(hashes, letters, strict=True)]
    parts += [(sums[-1] - part, lengths[-1] - length) for part, length in parts]
    return {part & MASK for part, length in parts if length >= LEAST_PART}
