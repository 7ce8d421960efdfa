"""What a tagger's folder says besides, and the words by which texts of another kind are known.

detector.json      the manifest (`kglink.models.head_folder`)
words.npy          hashes of the words that it learnt from
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import Field

from kglink.files.manifest import ManifestPart
from kglink.models.head_folder import HeadFolder, HeadManifest
from kglink.models.tag_spans import SpanCalibration

HashArray = npt.NDArray[np.uint32]

VOCABULARY = "words.npy"
FORMAT = 1
#: A text of fewer words is not judged by them, and of a longer one only so many are looked at.
_LEAST_WORDS, _MOST_WORDS = 8, 20_000
_LETTERS = re.compile(r"[^\W\d_]{3,}")


class Comparison(ManifestPart):
    """Strict F1 on held-out documents: of this detector, and of the dictionary."""

    learned: float
    dictionary: float
    documents: int

    @property
    def is_worse(self) -> bool:
        """Whether the dictionary is better."""
        return self.learned < self.dictionary

    @property
    def as_text(self) -> str:
        """Both figures in words."""
        return f"F1 {self.learned:.2f}, the dictionary {self.dictionary:.2f}"


class TaggerManifest(HeadManifest):
    """What ``detector.json`` says."""

    format: int = FORMAT
    tokens: int = Field(ge=32)
    """Pieces of one window."""
    kbs: tuple[str, ...]
    """The KBs whose entities their mentions mean."""
    types: tuple[str, ...]
    """The types of these mentions, where the documents have types."""
    calibration: SpanCalibration
    foreign: float
    """Texts with a larger share of words that it has not seen are of another kind."""
    compared: Comparison | None = None
    elsewhere: dict[str, Comparison] = Field(default_factory=dict)
    """The same on documents of sources that it has not learnt from, by their names."""

    @property
    def is_better(self) -> bool:
        """Whether it was not worse than the dictionary on held-out documents."""
        return self.compared is None or not self.compared.is_worse

    @property
    def worse_elsewhere(self) -> str:
        """The sources that it has not learnt from where the dictionary is better; may be empty."""
        return ", ".join(
            f"{name} ({one.as_text})" for name, one in self.elsewhere.items() if one.is_worse
        )


#: The folder of a tagger.
TAGGER = HeadFolder(
    "detector.json",
    TaggerManifest,
    FORMAT,
    "Train it again: `kglink finetune --what detector`.",
)


def read_vocabulary(folder: Path) -> HashArray:
    """Hashes of the words that a folder's tagger has seen."""
    known: HashArray = np.load(folder / VOCABULARY, allow_pickle=False)
    return known


def vocabulary(texts: Iterable[str]) -> HashArray:
    """Hashes of all words of some texts, sorted."""
    hashes = {one for text in texts for one in _hashes(text)}
    return np.sort(np.fromiter(hashes, np.uint32, len(hashes)))


def unknown_share(text: str, known: HashArray) -> float:
    """The share of a text's words whose hashes are not known; 0 where it has too few words."""
    words = np.fromiter(islice(_hashes(text), _MOST_WORDS), np.uint32)
    if len(words) < _LEAST_WORDS or not len(known):
        return 0.0
    places = np.minimum(np.searchsorted(known, words), len(known) - 1)
    return float((known[places] != words).mean())


def _hashes(text: str) -> Iterator[int]:
    for word in _LETTERS.finditer(text):
        yield zlib.crc32(word[0].lower().encode("utf-8", "replace"))
