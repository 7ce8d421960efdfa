"""The detector itself: a tagger's spans from a threshold on, or the dictionary's."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from kglink.errors import ConfigError
from kglink.models.hardware import choose_hardware
from kglink.models.head_folder import TAGGER, TaggerManifest
from kglink.models.tag_inputs import HashArray, read_vocabulary, unknown_share
from kglink.models.tag_spans import without_overlaps
from kglink.models.tagger import Tagger, open_tagger
from kglink.plugins import Detector, Names
from kglink.records import Ranking, Span
from kglink_plugins.detectors.dictionary.finder import dictionary_detector
from kglink_plugins.plugin import DictionarySettings, LearnedSettings

#: Decimals of a score: what is left depends on which texts were read together.
_DECIMALS = 4
#: How probably a place that it does not propose is a mention.
_UNPROPOSED = 0.01


class LearnedDetector:
    """Finds mentions like those of the documents that it has learnt from."""

    unproposed = _UNPROPOSED

    def __init__(self, settings: LearnedSettings, names: Names) -> None:
        self._settings = settings
        self._names = names
        self._folder = Path(settings.model).expanduser()
        self._opening = threading.Lock()
        if not settings.model or not TAGGER.is_there(self._folder):
            missing = f"{settings.model}: there is no" if settings.model else "this space has no"
            raise ConfigError(
                f"{missing} trained detector",
                hint="Train one with `kglink finetune --what detector`, or take the dictionary: "
                "link.detector = kglink/dictionary.",
            )

    def detect(self, text: str) -> list[Span]:
        """The mentions of a text, with probabilities, in reading order."""
        return self.detect_all([text])[0]

    def detect_all(self, texts: Sequence[str]) -> list[list[Span]]:
        """The mentions of each of some texts."""
        foreign = [self._is_foreign(text) for text in texts]
        own = [text for text, is_foreign in zip(texts, foreign, strict=True) if not is_foreign]
        proposed = map(self._chosen, self._opened[0].proposals(own))
        return [
            self._of_foreign(text) if is_foreign else next(proposed)
            for text, is_foreign in zip(texts, foreign, strict=True)
        ]

    def _of_foreign(self, text: str) -> list[Span]:
        """What the dictionary finds; nothing where others propose too."""
        return self._dictionary.detect(text) if self._settings.decides else []

    def _chosen(self, spans: Sequence[Span]) -> list[Span]:
        """Those that are mentions, or all that may be if others decide it."""
        rounded = [replace(one, score=round(one.score, _DECIMALS)) for one in spans]
        if not self._settings.decides:
            return rounded
        least = self._opened[1].calibration.threshold(self._settings.recall)
        return without_overlaps([one for one in rounded if one.score >= least])

    def judge(self, rankings: Sequence[Ranking]) -> list[float] | None:
        """1 for each mention of a text that the tagger read, whatever the KBs have; else None."""
        decides = self._settings.decides and rankings
        if not decides or self._is_foreign(rankings[0].mention.text):
            return None
        return [1.0] * len(rankings)

    def _is_foreign(self, text: str) -> bool:
        """Whether the dictionary reads a text, because too many of its words are unknown."""
        if self._settings.foreign:
            return False
        return unknown_share(text, self._known) > self._opened[1].foreign

    @property
    def _opened(self) -> tuple[Tagger, TaggerManifest]:
        with self._opening:
            return self._tagger

    @cached_property
    def _tagger(self) -> tuple[Tagger, TaggerManifest]:
        settings = self._settings
        return open_tagger(
            self._folder, choose_hardware(settings.device, settings.precision, settings.threads)
        )

    @cached_property
    def _known(self) -> HashArray:
        return read_vocabulary(self._folder)

    @cached_property
    def _dictionary(self) -> Detector:
        return dictionary_detector(DictionarySettings(), self._names)
