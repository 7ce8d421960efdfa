"""The guard against common words, and how sure a match is by the case in which it is written.

============================  ================================================================
alias                         with ``match_case = "smart"`` it matches
============================  ================================================================
only function words           as it is written (``IT``, ``The Who``): in lower case never, in
(``It``, ``The Who``)         Title case not where a sentence begins, in CAPITALS not among others
one short word in capitals,   in capitals
no other spelling (``AIDS``)
one common word, never in     with a capital; where a sentence begins with a low score
lower case (``Light``)
any other                     in every case; the score says how near the case is
============================  ================================================================
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from kglink.text.fold import fold
from kglink.text.sentences import begins_sentence
from kglink_plugins.detectors.dictionary.languages import COMMON_WORDS, FUNCTION_WORDS
from kglink_plugins.plugin import MatchCase

# Scores of a match. Only their order matters to detection; a linker may learn better ones.
EXACT, SAME_CASE, OTHER_CASE, OTHER_CASE_WORD, DOUBTFUL, REFUSED = 1.0, 0.9, 0.8, 0.7, 0.4, 0.0


# The shape of a folded alias: how its surfaces are written, and what the guard knows of it. Plain
# integers, because an enum's operators would take longer than the rest of a match.
LOWER, TITLE, UPPER, MIXED, WORD, FUNCTION, COMMON, EDGED = (1 << bit for bit in range(8))
#: The bits that say how it is written.
CASES = LOWER | TITLE | UPPER | MIXED

_LETTERS = re.compile(r"[^\W\d_]{2,}")
_WORDS_BESIDE = 2
_WINDOW = 60


def case_of(surface: str) -> int:
    """The case flag of a surface; LOWER where the script has no case."""
    if surface.islower():
        return LOWER
    # str.istitle() asks for a capital in every word; "Lung cancer" is Title case as well.
    if surface[:1].isupper() and surface[1:].islower():
        return TITLE
    if surface.isupper():
        letters = sum(map(str.isupper, surface))
        return UPPER if letters > 1 else UPPER | TITLE
    if surface.istitle():
        return TITLE
    cased = [character for character in surface if character.isupper() or character.islower()]
    if not cased:
        return LOWER
    return TITLE if cased[0].isupper() and not any(map(str.isupper, cased[1:])) else MIXED


def shape_of(surface: str) -> int:
    """What one surface adds to the shape of its folded form.

    EDGED: it begins or ends with a sign, which folding may drop (``Yahoo!``, ``U.S.``).
    """
    edged = not (surface[:1].isalnum() and surface[-1:].isalnum())
    return case_of(surface) | (EDGED if edged else 0)


class Verdict(NamedTuple):
    """The score of a match: usually, at the beginning of a sentence, among words in capitals."""

    usual: float
    beginning: float
    capitals: float

    @classmethod
    def of(cls, score: float) -> Verdict:
        """The same score everywhere."""
        return cls(score, score, score)


NEVER = Verdict(REFUSED, REFUSED, REFUSED)


class Guard:
    """Scores matches by case; knows the stop words of a language."""

    def __init__(
        self, match_case: MatchCase, acronym_chars: int = 4, stop_words: Collection[str] = ()
    ) -> None:
        self.is_strict = match_case == "always" or bool(stop_words)
        """Whether what it refuses may be found in no other way."""
        self._match_case = match_case
        self._acronym_chars = acronym_chars
        self._function = FUNCTION_WORDS | frozenset(map(fold, stop_words))

    def has_function_words_alone(self, folded: str) -> bool:
        """Whether all words are function words, or stop words of the user."""
        return all(word in self._function for word in folded.split(" "))

    def word_shape(self, folded: str) -> int:
        """What the folded form itself adds to its shape."""
        words = folded.split(" ")
        shape = 0
        if self.has_function_words_alone(folded):
            shape |= FUNCTION
        if len(words) == 1:
            shape |= WORD
            if folded in COMMON_WORDS:
                shape |= COMMON
        return shape

    def never(self, shape: int) -> bool:
        """Whether no text at all can match an alias of this shape."""
        if not shape & FUNCTION:
            return False
        return self._match_case == "never" or not shape & (TITLE | UPPER | MIXED)

    def verdict(self, folded: str, shape: int, surface: str, *, exact: bool) -> Verdict:
        """The score of a match with a surface; ``exact``: an alias is written so, sign for sign."""
        if self._match_case == "never":
            return Verdict.of(EXACT if exact else SAME_CASE)
        case = case_of(surface)
        same = exact or bool(shape & case)
        if self._match_case == "always" and not same:
            return NEVER
        if shape & FUNCTION:
            return _function_verdict(surface, case) if exact else NEVER
        if shape & WORD:
            return self._word_verdict(folded, shape, case, exact=exact, same=same)
        return Verdict.of(EXACT if exact else SAME_CASE if same else OTHER_CASE)

    def _word_verdict(
        self, folded: str, shape: int, case: int, *, exact: bool, same: bool
    ) -> Verdict:
        is_acronym = (shape & CASES) == UPPER and len(folded) <= self._acronym_chars
        if is_acronym and not case & UPPER:
            return NEVER
        only_capitalised = shape & COMMON and not shape & LOWER
        if only_capitalised and case == LOWER:
            return NEVER
        verdict = Verdict.of(EXACT if exact else SAME_CASE if same else OTHER_CASE_WORD)
        if only_capitalised:
            return verdict._replace(beginning=DOUBTFUL)
        if case == TITLE and shape & LOWER and not exact:
            return verdict._replace(beginning=SAME_CASE)
        return verdict


def _function_verdict(surface: str, case: int) -> Verdict:
    """The verdict on function words that are written exactly as an alias is."""
    if case & LOWER:
        return NEVER
    # "The Who" has a capital that no sentence gives it; "May" at the beginning of one has not.
    _, _, later_words = surface.partition(" ")
    given = case & TITLE and later_words == later_words.lower()
    return Verdict(
        OTHER_CASE_WORD,
        beginning=REFUSED if given else OTHER_CASE_WORD,
        capitals=REFUSED if case & UPPER else OTHER_CASE_WORD,
    )


def in_context(verdict: Verdict, text: str, start: int, end: int) -> float:
    """The score of the match ``text[start:end]``, 0 where it is refused."""
    if verdict.capitals != verdict.usual and among_capitals(text, start, end):
        return verdict.capitals
    if verdict.beginning != verdict.usual and begins_sentence(text, start):
        return verdict.beginning
    return verdict.usual


def among_capitals(text: str, start: int, end: int) -> bool:
    """Whether the words beside a span, at least two, are all in capitals."""
    before = _cased_words(text[max(0, start - _WINDOW) : start])[-_WORDS_BESIDE:]
    after = _cased_words(text[end : end + _WINDOW])[:_WORDS_BESIDE]
    beside = before + after
    return len(beside) >= _WORDS_BESIDE and all(map(str.isupper, beside))


def _cased_words(text: str) -> list[str]:
    return [word for word in _LETTERS.findall(text) if word.lower() != word.upper()]
