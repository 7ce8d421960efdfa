"""``kglink/dictionary``: finds every alias of the linked KBs in a text."""

from __future__ import annotations

from kglink.plugins import Detector, Names
from kglink_plugins.detectors.lexicon.settings import DictionarySettings

__all__ = ["DictionarySettings", "dictionary_detector"]


def dictionary_detector(settings: DictionarySettings, names: Names) -> Detector:
    """Open the compiled aliases of ``names``, compiling them where that was not done yet."""
    from kglink_plugins.detectors.lexicon import cache, compiled, finder

    return finder.DictionaryDetector(
        cache.open_lexicon(names, settings), compiled.guard_of(settings)
    )
