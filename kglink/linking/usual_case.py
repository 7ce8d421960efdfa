"""English texts in capitals, in lower case or in the case of headlines, as they usually are."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from kglink.models.word_ranks import commonness, proper_words, word_ranks
from kglink.text.abbreviations import long_forms
from kglink.text.language import function_words, language_of
from kglink.text.name_words import one_form

_WORDS = re.compile(r"[^\W\d_][^\W_]*")
_FIRST_LETTERS = re.compile(r"(?<![\w'\u2019-])[^\W\d_]+")
#: A headline has so many words; those of so many letters have a capital.
_LEAST_WORDS, _LONG, _ALL = 4, 4, 0.95
#: And of these, but the first, so many are common words; a list of names has fewer.
_LEAST_COMMON, _COMMON_WORDS = 3, 1 / 3
#: So many commas for each of its words make a list, such as one of names.
_COMMAS = 1 / 3
#: A word is an abbreviation if it is no longer, and the text or else its capitals say so.
_LONGEST_SHORT_FORM, _UNKNOWN_SHORT_FORM = 6, 4
#: A frequent word in capitals may be an abbreviation that KBs have, if it is no more common.
_SELDOM = 0.4


def in_usual_case(text: str, spellings: Callable[[str], Collection[str]]) -> str:
    """An English text in lower case, or with lines in capitals or headlines, as it usually is.

    It keeps its length, and any other line. ``spellings`` gives the names that are a word, in
    whatever case.
    """
    in_lower_case = text.islower()
    lines = [text] if in_lower_case else text.splitlines(keepends=True)
    others = [at for at, line in enumerate(lines) if in_lower_case or _is_headline(line)]
    # A headline has few function words.
    if not others or language_of(text) not in ("en", "en" if in_lower_case else ""):
        return text
    short = {
        form
        for one in long_forms(text.upper())
        if len(one) <= _LONGEST_SHORT_FORM and (form := one.lower()) not in function_words("en")
    }
    for at in others:
        lines[at] = _in_usual_case(lines[at], short, spellings)
    return "".join(lines)


def _is_headline(line: str) -> bool:
    """Whether a line is in capitals, or its long words have one, and some are no names."""
    words = _FIRST_LETTERS.findall(line)
    in_capitals = sum(map(str.isupper, words)) >= _ALL * len(words)
    long = [
        word
        for word in words
        if in_capitals or (len(word) >= _LONG and word.lower() not in function_words("en"))
    ]
    titled = sum(word[0].isupper() for word in long)
    is_list = not in_capitals and line.count(",") > _COMMAS * len(words)
    if len(words) < _LEAST_WORDS or titled < _ALL * len(long) or is_list:
        return False
    common = sum(commonness(word.lower()) > 0 for word in long[1:])
    return common >= max(_LEAST_COMMON, _COMMON_WORDS * len(long))


def _in_usual_case(
    line: str, short: Collection[str], spellings: Callable[[str], Collection[str]]
) -> str:
    # Among words with a capital, an abbreviation is seen: "Fever in HIV Patients".
    mixed = sum(map(str.isupper, line)) < sum(map(str.islower, line))

    def usual(found: re.Match[str]) -> str:
        word = found[0]
        lower, upper = word.lower(), word.upper()
        title = upper[:1] + lower[1:]
        if not len(word) == len(lower) == len(upper) or (mixed and word not in (lower, title)):
            return word
        if lower in short and word != title:
            return upper
        if lower in proper_words():
            return title
        is_word = len(word) > 1 and lower in word_ranks()
        # Addison's
        is_ending = len(word) == 1 and line.endswith(("'", "\u2019"), 0, found.start())
        is_common = mixed or commonness(lower) > _SELDOM
        names = () if is_ending or (is_word and is_common) else spellings(word)
        name = next((one for one in (title, lower, upper) if one in names), "")
        if is_ending or (is_word and name != upper):  # AIDS: all names have it in capitals
            return lower
        if name:
            return name
        is_code = not mixed and (len(word) <= _UNKNOWN_SHORT_FORM or not word.isalpha())
        other = word if is_code else title
        return lower if one_form(lower) in word_ranks() else other

    return _WORDS.sub(usual, line)
