"""All aliases of some KBs, compiled: a static trie, what the guard knows, and a filter.

The trie (marisa-trie) holds the folded aliases and answers with all that a text begins with at one
position. The filter says beforehand, for all words of a text at once, where that is worth asking:
it is a bit table over hashes of the first one and the first two words of every alias.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import marisa_trie
import numpy as np
import numpy.typing as npt

from kglink.plugins import NameRow
from kglink_plugins.detectors.dictionary.bags import Bags, compile_bags
from kglink_plugins.detectors.dictionary.borders import Hashes, words_of
from kglink_plugins.detectors.dictionary.guard import Guard, shape_of
from kglink_plugins.plugin import DictionarySettings

Bytes = npt.NDArray[np.uint8]

#: Rows of the filter: aliases of one word, those that need a capital, and those of several words.
ONE_WORD, ONE_CAPITAL_WORD, TWO_WORDS = range(3)
_SLOTS_PER_ALIAS = 16
#: A number with this number of digits, such as an EAN, is a name if somebody said that it is one.
_LONG_NUMBER = 6
_KEYS_AT_ONCE = 20_000
_MOST_COUNT = 2**32 - 1


ARTICLE = re.compile(r"(?:the|an?)\s+", re.IGNORECASE)


class Lexicon(NamedTuple):
    """Compiled aliases; ``counts`` and ``shapes`` are indexed by the ids of the trie ``keys``."""

    keys: marisa_trie.Trie
    surfaces: marisa_trie.Trie
    """The aliases as they are written."""
    articled: marisa_trie.Trie
    """Folded aliases with an article that no entity of theirs goes without: "the bishop"."""
    counts: npt.NDArray[np.uint32]
    shapes: Bytes
    bits: Bytes
    """The filter: three rows of bits, each addressed by the high bits of a hash."""
    longest: int
    """Characters of the longest key."""
    variants: Bags
    """The names as bags of words."""


def compile_lexicon(rows: Iterable[NameRow], settings: DictionarySettings) -> Lexicon:
    """Compile the aliases that a text can match."""
    guard = guard_of(settings)
    wanted = [row for row in rows if _wanted(row.folded, settings)]
    entries, surfaces = _collected(wanted)
    keys: dict[str, int] = {}
    for folded, (count, shape) in entries.items():
        whole = shape | guard.word_shape(folded)
        if not guard.never(whole):
            keys[folded] = min(count, _MOST_COUNT) << 8 | whole
    trie, written = marisa_trie.Trie(keys), marisa_trie.Trie(surfaces)
    rows_of_keys = np.fromiter(map(trie.key_id, keys), np.int64, len(keys))
    packed = np.zeros(len(keys), dtype=np.uint64)
    packed[rows_of_keys] = np.fromiter(keys.values(), np.uint64, len(keys))
    return Lexicon(
        keys=trie,
        surfaces=written,
        articled=marisa_trie.Trie(_articled(wanted)),
        counts=(packed >> np.uint64(8)).astype(np.uint32),
        shapes=packed.astype(np.uint8),
        bits=_filter_bits(keys, guard),
        longest=max(map(len, keys), default=0),
        variants=compile_bags((row for row in wanted if is_text(row.surface)), written.key_id),
    )


def _articled(rows: Sequence[NameRow]) -> set[str]:
    """The names with an article whose entities do not bear the rest of them."""
    names: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        if article := ARTICLE.match(row.folded):
            names.setdefault((row.kb, row.key), {})[row.folded[article.end() :]] = row.folded
    for row in rows:
        names.get((row.kb, row.key), {}).pop(row.folded, None)
    return {name for own in names.values() for name in own.values()}


def guard_of(settings: DictionarySettings) -> Guard:
    """The guard that these settings ask for."""
    return Guard(settings.match_case, settings.acronym_chars, settings.stop_words)


def passes(bits: Bytes, row: int, hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Which hashes the filter row lets pass: all that are in it, and a few that are not."""
    slots = _slots(bits, hashes)
    found: npt.NDArray[np.bool_] = (bits[row, slots >> 3] >> (slots & 7).astype(np.uint8)) & 1 != 0
    return found


def is_text(surface: str) -> bool:
    """Whether it can be written in UTF-8, which lone surrogates cannot."""
    return surface.isascii() or not any("\ud800" <= character <= "\udfff" for character in surface)


def _collected(rows: Iterable[NameRow]) -> tuple[dict[str, tuple[int, int]], set[str]]:
    """The sum of counts and the union of shapes of each folded alias, and all surfaces."""
    entries: dict[str, tuple[int, int]] = {}
    surfaces: set[str] = set()
    for row in rows:
        count, shape = entries.get(row.folded, (0, 0))
        entries[row.folded] = count + row.count, shape | shape_of(row.surface)
        if is_text(row.surface):
            surfaces.add(row.surface)
    return entries, surfaces


def _wanted(folded: str, settings: DictionarySettings) -> bool:
    if len(folded) > settings.max_chars or len(folded) - folded.count(" ") < settings.min_chars:
        return False
    if any(map(str.isalpha, folded)):
        return True
    return sum(map(str.isalnum, folded)) >= (1 if settings.numbers else _LONG_NUMBER)


def _filter_bits(keys: dict[str, int], guard: Guard) -> Bytes:
    slots = 1 << max(10, (len(keys) * _SLOTS_PER_ALIAS).bit_length())
    bits = np.zeros((3, slots // 8), dtype=np.uint8)
    for chunk in _chunks(list(keys)):
        words = words_of("\n".join(chunk))
        lengths = np.fromiter(map(len, chunk), dtype=np.int64, count=len(chunk))
        ends = np.cumsum(lengths + 1) - 1
        first = np.searchsorted(words.starts, ends - lengths)
        several = words.ends[first] < ends
        capital = np.fromiter(
            (guard.needs_capital(key, keys[key] & 0xFF) for key in chunk), np.bool_, len(chunk)
        )
        _set(bits, ONE_WORD, words.one[first[~several & ~capital]])
        _set(bits, ONE_CAPITAL_WORD, words.one[first[~several & capital]])
        _set(bits, TWO_WORDS, words.two[first[several]])
    return bits


def _chunks(keys: list[str]) -> Iterator[list[str]]:
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        yield keys[first : first + _KEYS_AT_ONCE]


def _set(bits: Bytes, row: int, hashes: Hashes) -> None:
    slots = _slots(bits, hashes)
    np.bitwise_or.at(bits[row], slots >> 3, np.uint8(1) << (slots & 7).astype(np.uint8))


def _slots(bits: Bytes, hashes: Hashes) -> npt.NDArray[np.int64]:
    shift = 64 - (bits.shape[1] * 8).bit_length() + 1
    return (hashes >> np.uint64(shift)).astype(np.int64)
