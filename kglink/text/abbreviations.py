"""Abbreviations that a text defines: "cystic fibrosis (CF)" and "CF (cystic fibrosis)".

The rule is that of Schwartz and Hearst (2003): the letters of the short form stand in the long
form in their order, and the first of them begins a word there. Where it finds nothing, the initials
of as many words in another order will do: "myotonic dystrophy (DM)" is short for its Latin name.
`kglink.linking.reading` asks for the long form of a mention, in all texts of its document that are
linked with it; `kglink.linking.detect` asks for the places of short forms.
"""

from __future__ import annotations

import re
from functools import lru_cache

_PARENTHESES = re.compile(r"\(([^()]{2,200})\)")
_SENTENCE_END = re.compile(r"[.!?;:]\s+(?=[A-Z(])|(?:\r\n?+|\n){2,}|[()]")
_LONGEST_SHORT_FORM = 10
_MOST_WORDS_OF_SHORT_FORM = 2
#: The number of characters before a parenthesis that are looked at.
_FURTHEST = 400


@lru_cache(maxsize=64)  # the mentions of one document come one after the other
def long_forms(text: str) -> dict[str, str]:
    """For each short form that a text defines its long form; of several the first definition."""
    found: dict[str, str] = {}
    for match in _PARENTHESES.finditer(text):
        before = _SENTENCE_END.split(text[max(0, match.start() - _FURTHEST) : match.start()])[
            -1
        ].rstrip()
        inside = match[1].strip()
        parts = [part.strip() for part in re.split(r"[;,]", inside)]
        if is_short_form(parts[0]):
            pair = _defined(parts[0], before)
        else:
            short = (before.split() or [""])[-1]
            pair = short, _long_form(short, inside) if is_short_form(short) else ""
            # What stands between may be a synonym: "GLD" in "(Krabbe disease; GLD)".
            if not pair[1] and (short := next(filter(is_short_form, parts[1:]), "")):
                pair = _defined(short, before)
        if pair[1]:
            found.setdefault(*pair)
    return found


def _defined(short: str, before: str) -> tuple[str, str]:
    """A short form and its long form in the words before it; of "(EDDs)" the singular too."""
    letters = sum(letter.isalnum() for letter in short)
    last = list(re.finditer(r"\S+", before))[-min(letters + 5, letters * 2) :]
    words = before[last[0].start() :] if last else ""
    if found := _long_form(short, words):
        return short, found
    singular = short[:-1] if re.fullmatch(r".*[A-Z]s", short) else ""
    return singular, _long_form(singular, words) if len(singular) > 1 else ""


def long_form_of(surface: str, text: str) -> str:
    """What a surface stands for in its text, its plural too; empty where nothing is said."""
    if len(surface) > _LONGEST_SHORT_FORM + 1:
        return ""
    defined = long_forms(text)
    return defined.get(surface) or (defined.get(surface[:-1], "") if surface[-1:] == "s" else "")


def is_short_form(text: str) -> bool:
    """Whether a text may be an abbreviation: short, few words, a letter, no sentence."""
    return (
        2 <= len(text) <= _LONGEST_SHORT_FORM
        and len(text.split()) <= _MOST_WORDS_OF_SHORT_FORM
        and any(letter.isupper() for letter in text)
        and text[0].isalnum()
    )


def _long_form(short: str, words: str) -> str:
    """The shortest end of some words that has the letters of a short form in their order."""
    at = len(words)
    letters = [letter for letter in short.lower() if letter.isalnum()]
    lower = words.lower()
    if len(lower) != len(words):  # A letter whose lower case is longer: offsets would be wrong.
        return ""
    for number, letter in reversed(list(enumerate(letters))):
        at = lower.rfind(letter, 0, at)
        while number == 0 and at > 0 and lower[at - 1].isalnum():
            at = lower.rfind(letter, 0, at)
        if at < 0:
            last = list(re.finditer(r"\w+", words))[-len(letters) :]
            initials = [word[0][0].lower() for word in last]
            return words[last[0].start() :] if last and sorted(initials) == sorted(letters) else ""
    found = words[at:].strip()
    return found if len(found) > len(short) and short not in found.split() else ""
