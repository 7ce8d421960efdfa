"""The dictionary detector: names as they are written, their variants and parts, each weighed.

How probable a place is a mention is said by a logistic model over facts of its words and of the
names that it was found by (`Facts`). Its weights are a table that people can read, `weights.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from kglink.plugins import Names
from kglink.records import Span
from kglink.text.words import cuts_word
from kglink_plugins.detectors.dictionary.cache import open_lexicon
from kglink_plugins.detectors.dictionary.compiled import guard_of
from kglink_plugins.detectors.dictionary.finder import DictionaryDetector
from kglink_plugins.detectors.dictionary.settings import DictionarySettings
from kglink_plugins.detectors.dictionary.variants import Facts, VariantFinder, written_facts

#: A place that is less probably a mention is not proposed.
LEAST_SCORE = 0.1


def name_detector(settings: DictionarySettings, names: Names) -> NameDetector:
    """Open the compiled names, compiling them where that was not done yet."""
    lexicon = open_lexicon(names, settings)
    exact = DictionaryDetector(lexicon, guard_of(settings))
    return NameDetector(exact, VariantFinder(lexicon.variants), default_weights())


@cache
def default_weights() -> Mapping[str, float]:
    """The weight of each fact, fitted by `benchmarks/detection_fit.py`."""
    table = files("kglink_plugins.detectors.dictionary").joinpath("weights.json")
    weights: Mapping[str, float] = json.loads(table.read_text(encoding="utf-8"))
    return weights


class NameDetector:
    """Finds names in texts, and says how probable each place is a mention."""

    def __init__(
        self, exact: DictionaryDetector, variants: VariantFinder, weights: Mapping[str, float]
    ) -> None:
        self._exact = exact
        self._variants = variants
        self._weights = [weights[fact] for fact in Facts._fields]
        self._bias = weights["bias"]

    def detect(self, text: str) -> list[Span]:
        """The places that may be mentions, in reading order; some overlap."""
        written = {(span.start, span.end): span.score for span in self._exact.detect(text)}
        best: dict[tuple[int, int], float] = {}
        for place in self._variants.places(text, written):
            span = place.start, place.end
            best[span] = max(best.get(span, 0.0), self._score(place.facts))
        for span in written.keys() - best.keys():
            best[span] = self._score(written_facts(text, *span, written[span]))
        return [
            Span(*span, best[span])
            for span in sorted(best)
            if best[span] >= LEAST_SCORE and not any(cuts_word(text, edge) for edge in span)
        ]

    def _score(self, facts: Facts) -> float:
        odds = sum(map(float.__mul__, self._weights, facts), self._bias)
        return 1 / (1 + math.exp(-odds))
