"""Words that stand for a place: "Italian" and "Danes", and "Calif." behind the name of a town.

The table `places.tsv` has the English ones: a place and its words in each line. The plurals of its
words with "s" need no row. Words with a dot are short for the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

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


def short_places(text: str) -> Iterator[ShortPlace]:
    """Places in short behind a town: "Columbus, Ga."."""
    places = _places()
    for match in _short_forms().finditer(text):
        yield ShortPlace(*match.span("short"), places[match["short"]])


def place_of(surface: str, start: int, text: str, is_name: Callable[[str], bool]) -> str:
    """The place that ``text[start:]`` stands for; empty where it is none, or a language.

    ``is_name``: whether a KB has a name. "Germans" are their country only where no KB has them.
    """
    places = _places()
    end = start + len(surface)
    place = places.get(surface, "")
    if not place and text[end : end + 1] == ".":
        place = places.get(f"{surface}.", "")
    if not place and surface.endswith("s") and not is_name(surface):
        place = places.get(surface[:-1], "")
    if not place or not is_name(place) or _is_language(start, end, text):
        return ""
    return place


def _is_language(start: int, end: int, text: str) -> bool:
    """Whether a word names a language here: "speaks Italian", "in Italian", "Italian-speaking"."""
    if _OF_LANGUAGE.match(text, end):
        return True
    before = text[max(0, start - _FURTHEST) : start]
    return _SPOKEN.search(before) is not None and not _GOES_ON.match(text, end)


@cache
def _places() -> dict[str, str]:
    """The place of each word."""
    table = files("kglink.text").joinpath("places.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines())
    return {word: place for place, words in rows for word in words.split(", ")}


@cache
def _short_forms() -> re.Pattern[str]:
    short = "|".join(re.escape(word) for word in _places() if word.endswith("."))
    return re.compile(rf"[^\W\d_], (?P<short>{short})(?!\w)")
