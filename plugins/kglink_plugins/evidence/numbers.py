"""Numbers agree: `AquaJet 3000` is not the 5000, and type IVA is type 4A."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from kglink.plugins import DefaultWeights, PluginSettings
from kglink.records import Ranking
from kglink.text.abbreviations import long_form_of
from kglink.text.fold import fold
from kglink.text.name_words import name_words, numbers_of

_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta",
    "η": "eta", "θ": "theta", "κ": "kappa", "λ": "lambda", "σ": "sigma", "ω": "omega",
}  # fmt: skip
_GREEK_NAMES = frozenset(_GREEK.values())
_GREEK_LETTER = re.compile("|".join(_GREEK))
#: After these a Roman number may have a letter: ``type IVA``.
_ROMAN_AND_LETTER = re.compile(
    r"\b(class|factor|grade|group|phase|stage|type|variant) (i{1,3}|iv|vi{0,3}|ix|x)([a-e])\b"
)


class Numbers:
    """-1 for candidates none of whose names has the numbers that the mention has."""

    weights = DefaultWeights(untrained=0.15, trained=0.15)

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        """Each mention by itself; one without numbers says nothing."""
        return [self._of_mention(one) for one in mentions]

    def _of_mention(self, ranking: Ranking) -> list[float]:
        mention = ranking.mention
        long = long_form_of(mention.surface, mention.text)
        wanted = {numbers for form in (mention.surface, long) if (numbers := numbers_in(form))}
        if not wanted:
            return [0.0] * len(ranking.candidates)
        return [
            -float(all(numbers_in(name) not in wanted for name in (one.title, *one.aliases)))
            for one in ranking.candidates
        ]


@lru_cache(maxsize=1 << 14)
def numbers_in(name: str) -> frozenset[str]:
    """What tells the members of a series apart: numbers, single letters, Greek letters, ``b46``."""
    folded = _GREEK_LETTER.sub(lambda letter: f" {_GREEK[letter[0]]} ", fold(name))
    words = name_words(" ".join(_ROMAN_AND_LETTER.sub(r"\1 \2 \3", folded).split()))
    return numbers_of(words) | {
        word for word in words if word in _GREEK_NAMES or any(map(str.isdigit, word))
    }
