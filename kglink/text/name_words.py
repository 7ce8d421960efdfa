"""The words of a name in one spelling, for comparing names that nobody wrote alike.

Light rules that any English name bears: plurals, British and American spelling, Roman numerals
that count something, words that carry no meaning. Words of other languages pass unchanged but for
a final ``s``. What a KB itself uses for the same thing, such as ``renal`` and ``kidney``, is no
matter of spelling; it is learnt from the names of its entities.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: Words that distinguish no two names; ``s`` is what folding leaves of a possessive.
EMPTY_WORDS = frozenset((
    "a", "an", "and", "as", "at", "by", "due", "for", "from", "in", "is", "nos", "of", "on", "or",
    "s", "the", "to", "type", "with",
))  # fmt: skip
_ROMAN = {
    "ii": "2", "iii": "3", "iv": "4", "v": "5", "vi": "6", "vii": "7", "viii": "8", "ix": "9",
    "x": "10", "xi": "11", "xii": "12", "xiii": "13", "xiv": "14", "xv": "15", "xvi": "16",
    "xvii": "17", "xviii": "18", "xix": "19", "xx": "20",
}  # fmt: skip
_NUMBER_AND_LETTER = re.compile(r"(\d+)([a-z])")
_SPELLINGS = ((re.compile("[ao]e"), "e"), (re.compile("isation"), "ization"))
_BRITISH_END = re.compile(r"our(s?)$")
_LONG_PLURALS = ("sses", "xes", "ches", "shes", "zes")


def name_words(folded: str) -> list[str]:
    """The words of a folded name that count, in its order, repeats included.

    A name of empty words alone keeps them: ``The Who`` is no name without a word.
    """
    words = folded.split(" ") if folded else []
    kept: list[str] = []
    before = ""
    for word in words:
        kept += _parts(word, before)
        before = word
    return kept or words


def numbers_of(words: list[str]) -> frozenset[str]:
    """The words that distinguish members of a series: numbers and single letters."""
    return frozenset(word for word in words if word.isdigit() or len(word) == 1)


def _parts(word: str, before: str) -> list[str]:
    # An article begins a name or follows a preposition; the others are as in "vitamin A".
    if word in EMPTY_WORDS and (word != "a" or not before or before in EMPTY_WORDS):
        return []
    if word == "i" and before:
        return ["1"]
    if word in _ROMAN and before and not before.isdigit():  # "36 V" is no "36 5"
        return [_ROMAN[word]]
    if pair := _NUMBER_AND_LETTER.fullmatch(word):
        return [_plain_number(pair[1]), pair[2]]
    return [one_form(word)]


@lru_cache(maxsize=1 << 16)
def one_form(word: str) -> str:
    """``tumor`` for ``tumours``, ``anemia`` for ``anaemia``, ``7`` for ``07``."""
    if word.isdigit():
        return _plain_number(word)
    if len(word) > 4:
        for pattern, plain in _SPELLINGS:
            word = pattern.sub(plain, word)
        word = _BRITISH_END.sub(r"or\1", word)
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(_LONG_PLURALS):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _plain_number(digits: str) -> str:
    return digits.lstrip("0") or "0"


def name_key(folded: str) -> str:
    """One key for a name however it is inflected, and in whatever order its words stand."""
    return " ".join(sorted(name_words(folded)))
