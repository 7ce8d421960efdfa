"""All aliases of some KBs, compiled: a static trie, and what the guard knows of each.

The trie (marisa-trie) holds the folded aliases and answers with all that a text begins with at one
position.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import marisa_trie
import numpy as np
import numpy.typing as npt

from kglink.files.runs import MOST_RECORDS
from kglink.files.tables import map_array
from kglink.plugins import NameRow
from kglink_plugins.detectors.dictionary.bags import KBS_FILE, Bags, BagWriter
from kglink_plugins.detectors.dictionary.guard import FUNCTION, Guard, shape_of
from kglink_plugins.plugin import DictionarySettings

Bytes = npt.NDArray[np.uint8]

#: The parts of `Lexicon` that are files, besides its variants.
TRIES, ARRAYS = ("keys", "surfaces", "articled"), ("counts", "shapes")
#: A number with this number of digits, such as an EAN, is a name if somebody said that it is one.
_LONG_NUMBER = 6
_ROWS_AT_ONCE = 20_000
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
    longest: int
    """Characters of the longest key."""
    variants: Bags
    """The names as bags of words."""
    kbs: Mapping[str, int]
    """The KBs of the names, and how many words these have."""


def compile_lexicon(rows: Iterable[NameRow], settings: DictionarySettings) -> Lexicon:
    """Compile the aliases that a text can match, for this process alone."""
    with TemporaryDirectory(prefix="kglink-") as made:
        return map_lexicon(Path(made), write_lexicon(Path(made), rows, settings))


def map_lexicon(folder: Path, longest: int) -> Lexicon:
    """The aliases that are compiled in a folder, memory-mapped; ``longest`` key of them."""
    tries = {name: marisa_trie.Trie().mmap(str(folder / f"{name}.marisa")) for name in TRIES}
    arrays = {name: map_array(folder / f"{name}.npy") for name in ARRAYS}
    variants = Bags(*(map_array(folder / f"{name}.npy") for name in Bags._fields))
    kbs: Mapping[str, int] = json.loads((folder / KBS_FILE).read_text(encoding="utf-8"))
    return Lexicon(**tries, **arrays, longest=longest, variants=variants, kbs=kbs)


def write_lexicon(
    folder: Path, rows: Iterable[NameRow], settings: DictionarySettings, most: int = MOST_RECORDS
) -> int:
    """Compile the aliases that a text can match into files; returns the length of the longest.

    ``rows`` are read once and need not fit into memory; ``most`` bounds what is sorted in it.
    """
    with TemporaryDirectory(dir=folder) as made:
        compiler = _Compiler(folder, Path(made), guard_of(settings), most)
        compiler.read(row for row in rows if _wanted(row.folded, settings))
        return compiler.write()


class _Rows(NamedTuple):
    """Some aliases as they wait on the disk, column by column."""

    surfaces: list[str | None]
    """None: a surface that is no text."""
    folded: list[str]
    counts: list[int]
    shapes: list[int]
    bearers: list[str]


class _Compiler:
    """Compiles aliases; between its steps they wait in a file."""

    def __init__(self, folder: Path, scratch: Path, guard: Guard, most: int) -> None:
        self._folder = folder
        self._waiting = scratch / "rows.jsonl"
        self._bags = BagWriter(scratch, most)
        self._guard = guard
        self._function_words: dict[str, int] = {}
        """The shapes of the aliases that are function words alone."""
        self._articled: dict[tuple[str, str], str] = {}
        """Names with an article, by their entity and the rest of the name."""

    def read(self, rows: Iterable[NameRow]) -> None:
        """Take the aliases, which are read once."""
        rest = iter(rows)
        with self._waiting.open("w", encoding="ascii") as file:
            while some := list(islice(rest, _ROWS_AT_ONCE)):
                self._bags.add([row for row in some if is_text(row.surface)])
                columns = _Rows(
                    [row.surface if is_text(row.surface) else None for row in some],
                    [row.folded for row in some],
                    [row.count for row in some],
                    [shape_of(row.surface) | self._guard.word_shape(row.folded) for row in some],
                    [f"{row.kb}:{row.key}" for row in some],
                )
                for bearer, folded, shape in zip(
                    columns.bearers, columns.folded, columns.shapes, strict=True
                ):
                    if shape & FUNCTION:
                        self._function_words[folded] = self._function_words.get(folded, 0) | shape
                    if article := ARTICLE.match(folded):
                        self._articled[bearer, folded[article.end() :]] = folded
                file.write(f"{json.dumps(columns)}\n")

    def write(self) -> int:
        """Write the files of `Lexicon`; returns the length of the longest key."""
        surfaces = (surface for some in self._rows() for surface in some.surfaces if surface)
        written = self._trie("surfaces", surfaces)
        never = {key for key, shape in self._function_words.items() if self._guard.never(shape)}
        keys = self._trie(
            "keys", (key for some in self._rows() for key in some.folded if key not in never)
        )
        counts, shapes = np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.uint8)
        ids, longest = array("I"), 0
        for some in self._rows():
            ids.extend(written.key_id(surface) for surface in some.surfaces if surface)
            for bearer, folded in zip(some.bearers, some.folded, strict=True):
                self._articled.pop((bearer, folded), None)
            kept = [at for at, folded in enumerate(some.folded) if folded not in never]
            places = [keys.key_id(some.folded[at]) for at in kept]
            np.add.at(counts, places, np.array(some.counts, dtype=np.uint64)[kept])
            np.bitwise_or.at(shapes, places, np.array(some.shapes, dtype=np.uint8)[kept])
            longest = max(longest, *(len(some.folded[at]) for at in kept), 0)
        self._trie("articled", set(self._articled.values()))
        np.save(self._folder / "counts.npy", np.minimum(counts, _MOST_COUNT).astype(np.uint32))
        np.save(self._folder / "shapes.npy", shapes)
        self._bags.write(self._folder, np.frombuffer(ids, np.uint32))
        return longest

    def _rows(self) -> Iterator[_Rows]:
        with self._waiting.open(encoding="ascii") as file:
            for line in file:
                yield _Rows(*json.loads(line))

    def _trie(self, name: str, words: Iterable[str]) -> marisa_trie.Trie:
        """Write a trie; it is mapped, for that takes less memory than what was built."""
        path = self._folder / f"{name}.marisa"
        # Its own `save` does not tell of a full disk.
        path.write_bytes(marisa_trie.Trie(words).tobytes())
        return marisa_trie.Trie().mmap(str(path))


def guard_of(settings: DictionarySettings) -> Guard:
    """The guard that these settings ask for."""
    return Guard(settings.match_case, settings.acronym_chars, settings.stop_words)


def is_text(surface: str) -> bool:
    """Whether it can be written in UTF-8, which lone surrogates cannot."""
    return surface.isascii() or not any("\ud800" <= character <= "\udfff" for character in surface)


def _wanted(folded: str, settings: DictionarySettings) -> bool:
    if len(folded) > settings.max_chars or len(folded) - folded.count(" ") < settings.min_chars:
        return False
    if any(map(str.isalpha, folded)):
        return True
    return sum(map(str.isalnum, folded)) >= (1 if settings.numbers else _LONG_NUMBER)
