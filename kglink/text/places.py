"""Words that stand for a place: "Italian" and "Danes", and "Calif." behind the name of a town.

The table `places.tsv` has the English ones: in each line a place, its adjectives, words for its
people, and what is short for it. Plurals with "s" need no row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from kglink.text.plain import with_common_signs

_OF_LANGUAGE = re.compile(
    r"[- ](?:languages?|speak(?:ing|ers?)|spoken|words?|dialects?|translations?|alphabet|grammar)\b"
)
_SPOKEN = re.compile(r"\b(?:in|into|from|sp[eo]aks?|spoken?|speaking|fluent|learn\w*)\s\Z", re.I)
_GOES_ON = re.compile(r"[- ]\w")
#: As many characters before a word are looked at.
_FURTHEST = 12


class ShortPlace(NamedTuple):
    """Where a text has a place in short, and the place."""

    start: int
    end: int
    place: str


class _Words(NamedTuple):
    """The place of each word."""

    adjectives: dict[str, str]
    people: dict[str, str]
    short: dict[str, str]


def short_places(text: str) -> Iterator[ShortPlace]:
    """Places in short behind a town: "Columbus, Ga."."""
    for match in _short_forms().finditer(text):
        yield ShortPlace(*match.span("short"), _words().short[match["short"]])


def place_of(surface: str, start: int, text: str, is_name: Callable[[str], bool]) -> str:
    """The place that ``text[start:]`` stands for; empty where it is none, or a language.

    ``is_name``: whether a KB has a name. A word that is a name itself stands for a place only as
    an adjective before another word: "an American singer", not "he flew American".
    """
    end, text = start + len(surface), with_common_signs(text)
    words = _words()
    if place := words.adjectives.get(surface, ""):
        is_place = not _is_language(start, end, text)
        is_place = is_place and (not is_name(surface) or _GOES_ON.match(text, end) is not None)
    elif surface[:1].isupper() and text[max(0, start - 2) : start] == ", ":
        dot = "" if surface.endswith(".") or text[end : end + 1] != "." else "."
        place = words.short.get(f"{surface}{dot}", "")
        is_place = bool(place)
    else:
        one = surface.removesuffix("s")
        place = words.people.get(surface) or words.people.get(one) or words.adjectives.get(one, "")
        is_place = bool(place) and not is_name(surface)
    return place if is_place and is_name(place) else ""


def _is_language(start: int, end: int, text: str) -> bool:
    """Whether a word names a language here: "speaks Italian", "in Italian", "Italian-speaking"."""
    if _OF_LANGUAGE.match(text, end):
        return True
    before = text[max(0, start - _FURTHEST) : start]
    return _SPOKEN.search(before) is not None and not _GOES_ON.match(text, end)


@cache
def place_words() -> frozenset[str]:
    """Places that everybody knows, their adjectives and their people, as they are written."""
    words = _words()
    known = {*words.adjectives, *words.people}
    return frozenset(known | {f"{one}s" for one in known} | {*words.adjectives.values()})


@cache
def _words() -> _Words:
    table = files("kglink.text").joinpath("places.tsv").read_text(encoding="utf-8")
    found = _Words({}, {}, {})
    for line in table.splitlines():
        place, *columns = line.split("\t")
        for column, words in zip(found, columns, strict=False):
            column.update(dict.fromkeys(filter(None, words.split(", ")), place))
    return found


@cache
def _short_forms() -> re.Pattern[str]:
    short = "|".join(map(re.escape, _words().short))
    return re.compile(rf"[^\W\d_], (?P<short>{short})(?!\w)")
