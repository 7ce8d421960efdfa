"""Aliases for the tests of the dictionary detector, and what it finds with them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from kglink.plugins import NameRow
from kglink.text.fold import fold
from kglink_plugins.detectors.dictionary.finder import dictionary_detector
from kglink_plugins.plugin import DictionarySettings


class Names:
    """Aliases as a linker hands them over, ``others`` of a second KB; counts where they matter."""

    def __init__(
        self,
        surfaces: Sequence[str],
        cache_dir: Path | None = None,
        counts: dict[str, int] | None = None,
        others: Sequence[str] = (),
    ) -> None:
        self._surfaces = surfaces
        self._counts = counts or {}
        self._others = others
        self.cache_dir = cache_dir
        self.fingerprint = hashlib.sha256(repr((surfaces, others)).encode()).hexdigest()
        self.reads = 0

    def __iter__(self) -> Iterator[NameRow]:
        self.reads += 1
        for surface in self._surfaces:
            yield NameRow(surface, fold(surface), "kb", self._counts.get(surface, 1))
        for surface in self._others:
            yield NameRow(surface, fold(surface), "other", 1)

    def __len__(self) -> int:
        return len(self._surfaces) + len(self._others)


def found(text: str, *surfaces: str, **settings: object) -> list[str]:
    detector = dictionary_detector(DictionarySettings.model_validate(settings), Names(surfaces))
    return [text[span.start : span.end] for span in detector.detect(text)]


def score(text: str, *surfaces: str, **settings: object) -> float:
    detector = dictionary_detector(DictionarySettings.model_validate(settings), Names(surfaces))
    (span,) = detector.detect(text)
    return span.score
