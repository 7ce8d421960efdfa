"""Names that a text has in full and in part: "Robert Gates", and "Gates" elsewhere in it.

A full name is two to four words with capitals, one space apart. A part of it is its first or last
word. Which full name a part stands for is said by where they stand: the nearest one before it, else
the first one behind it, as headlines have it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from kglink.text.language import function_words
from kglink.text.plain import with_common_signs
from kglink.text.sentences import begins_sentence
from kglink.text.words import cuts_word

_WORD = r"[A-ZÀ-ÖØ-Þ](?:[\w'’-]*[^\W_]|\.)?"
_RUN = re.compile(rf"(?<![\w'’-])[^\W\d_a-zß-öø-ÿ](?:[\w'’-]*[^\W_]|\.)?(?: {_WORD})+")
_LOWER = re.compile(r"(?<![\w'’-])[a-zß-öø-ÿ][\w'’-]*")
_POSSESSIVE = re.compile(r"['’]s$")
_MOST_WORDS = 4
#: How many full names on each side of a part are looked at.
_MOST_LOOKED_AT = 20
#: Words that begin names of places and bodies whose last word is no short form of them.
_NOT_FIRST = frozenset((
    "The", "A", "An", "In", "On", "At", "For", "From", "To", "And", "But", "When", "While", "As",
    "If", "By", "With", "After", "Before", "North", "South", "East", "West", "Northern", "Southern",
    "Eastern", "Western", "Central", "New", "Old", "Great", "Saint", "St.", "Mount", "Lake", "Air",
    "University", "United", "Republic", "Upper", "Lower", "Fort", "Port", "Los", "Las", "San",
    "Santa",
))  # fmt: skip


_NICK = r"([^\W\d_a-zß-öø-ÿ][^\"”'’\n]{0,23})"
_NICKNAMED = re.compile(
    rf"(?<![\w'’-])({_WORD}(?: {_WORD}){{0,2}})"
    rf" (?:\"{_NICK}\"|“{_NICK}”|'{_NICK}'|‘{_NICK}’)"
    rf" ([^\W\d_a-zß-öø-ÿ][\w-]*[^\W_])"
)
#: "Of the" in a longer name, wherever a line ends.
OF = r"\s{1,4}(?:of|de|du|di|von)(?:\s{1,4}the|\s{1,4}la)?\s{1,4}"
#: What joins the words of a longer name.
_JOINED = rf"({OF}| {{1,3}}|-)"
_WORD_BEFORE = re.compile(rf"(?<![\w'’-])([^\W\d_]\w*(?:['’]\w+)?){_JOINED}\Z")
_WORD_BEHIND = re.compile(rf"{_JOINED}([^\W\d_]\w)")
_LONGEST_BEFORE = 60
_TITLES = frozenset((
    "Mr", "Mrs", "Ms", "Dr", "Prof", "Sir", "Lord", "Lady", "President", "Senator", "Judge", "King",
    "Queen", "Pope", "Saint", "General", "Captain", "Colonel", "Professor", "Minister",
    "Lieutenant", "Lt", "Sergeant", "Sgt", "Capt", "Detective", "Inspector", "Officer",
    "Major", "Admiral", "Mayor", "Governor", "Chief",
))  # fmt: skip


#: Words with a capital before a name that are no first names.
NO_FIRST_NAMES = _TITLES | _NOT_FIRST


class Nicknamed(NamedTuple):
    """Where a person's full name stands with a nickname in it, and names that may be meant."""

    start: int
    end: int
    names: list[str]


def nicknamed(text: str) -> Iterator[Nicknamed]:
    """The full names with nicknames in quotation marks: 'Dave "Uncle Dave" Thornton'."""
    for found in _NICKNAMED.finditer(text):
        if cuts_word(text, found.end()):
            continue
        first, *nicks, last = found.groups()
        start = found.start()
        while (word := first.split(" ")[0]).rstrip(".") in NO_FIRST_NAMES and word != first:
            first = first[len(word) + 1 :]
            start += len(word) + 1
        names = (f"{one} {last}" for one in (first, first.split(" ")[0], next(filter(None, nicks))))
        yield Nicknamed(start, found.end(), list(dict.fromkeys(names)))


class _Full(NamedTuple):
    """Where a full name begins, and its words."""

    start: int
    name: str


def full_name_of(surface: str, start: int, text: str, is_name: Callable[[str], bool]) -> str:
    """The full name whose first or last word ``text[start:]`` repeats; empty where none is.

    ``is_name``: whether a KB has a name. A word that is one itself is short for a full name only as
    the last word of what may be a person. A word that the text has in lower case too is no part of
    a name where a sentence gives it its capital: "Cancer" after "Breast Cancer" in a heading.
    """
    if " " in surface or not surface[:1].isupper() or len(surface) < 3:
        return ""
    text = with_common_signs(text)
    by_word = _full_names(text).get(surface)
    if not by_word or (begins_sentence(text, start) and surface.lower() in _lower_words(text)):
        return ""
    at = bisect_left(by_word, (start,))
    before = reversed(by_word[max(0, at - _MOST_LOOKED_AT) : at])
    behind = by_word[at : at + _MOST_LOOKED_AT]
    stands_alone = is_name(surface)
    for full in (*before, *behind):
        if full.start <= start < full.start + len(full.name):
            continue
        first, _, rest = full.name.partition(" ")
        may_be_person = rest.endswith(surface) and first not in _NOT_FIRST
        if (may_be_person or not stands_alone) and is_name(full.name):
            return full.name
    return ""


def is_part_of_name(text: str, start: int, end: int) -> bool:
    """Whether words that begin with a capital stand in a longer name: "Partitions of [Poland]".

    Words in capitals do not: headlines have all words so. Nor does a title make a name longer, or
    what has its capital from the beginning of a sentence.
    """
    surface = text[start:end]
    if not surface[:1].isupper() or (len(surface) > 1 and surface.isupper()):
        return False
    text = with_common_signs(text)
    before = _WORD_BEFORE.search(text, max(0, start - _LONGEST_BEFORE), start)
    if before and before[1][0].isupper():
        word, joined = before[1], before[2].strip(" ")
        lead = text[max(0, before.start() - 4) : before.start()].rstrip(" \t\"'”’()")
        begins = not lead or lead[-1] in ".!?:;\n"
        is_name = not (begins and not joined) and "'" not in word and "’" not in word
        if is_name and word not in _TITLES and word.lower() not in function_words("en"):
            return True
    behind = _WORD_BEHIND.match(text, end)
    return bool(behind and behind[2][0].isupper())


@lru_cache(maxsize=64)  # the mentions of one document come one after the other
def _lower_words(text: str) -> frozenset[str]:
    """The words of a text that begin without a capital."""
    return frozenset(_LOWER.findall(text))


@lru_cache(maxsize=64)
def _full_names(text: str) -> dict[str, list[_Full]]:
    """By first and by last word the full names of a text, in reading order."""
    found: dict[str, list[_Full]] = {}
    for run in _RUN.finditer(text):
        words = [(run.start() + one.start(), one[0]) for one in re.finditer(r"\S+", run[0])]
        for first in range(len(words)):
            for stop in range(first + 2, min(first + _MOST_WORDS, len(words)) + 1):
                start = words[first][0]
                last = _POSSESSIVE.sub("", words[stop - 1][1])
                full = _Full(start, text[start : words[stop - 1][0]] + last)
                for word in {words[first][1], last}:
                    found.setdefault(word, []).append(full)
    for own in found.values():
        # Of those that begin at one place the longest comes first.
        own.sort(key=lambda one: (one.start, len(one.name)))
    return found
