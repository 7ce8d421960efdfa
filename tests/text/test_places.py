"""Words that stand for a place, by hand."""

from __future__ import annotations

import time

import pytest

from kglink.text.places import place_of, short_places

NAMES = frozenset((
    "Italy", "Germany", "Denmark", "Germans", "United States", "Georgia", "French", "France",
    "Finn", "Finland", "American", "California", "Massachusetts", "Mass", "Vatican", "Vatican City",
))  # fmt: skip


def place(text: str, word: str) -> str:
    return place_of(word, text.index(word), text, NAMES.__contains__)


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("an Italian singer", "Italian", "Italy"),
        ("She is Italian.", "Italian", "Italy"),
        ("in Italian cinema", "Italian", "Italy"),
        ("The Danes won.", "Danes", "Denmark"),
        # A people that a KB has is no country.
        ("The Germans won.", "Germans", ""),
        ("The Americans won.", "Americans", "United States"),
        # A word that a KB has as a name is a place before another word alone.
        ("an American singer", "American", "United States"),
        ("He flew American.", "American", ""),
        ("a French film", "French", "France"),
        ("a French\xa0film", "French", "France"),
        ("She met Finn and Jake.", "Finn", ""),
        ("the Vatican said", "Vatican", ""),
        # The language.
        ("He speaks Italian.", "Italian", ""),
        ("It was written in Italian, then lost.", "Italian", ""),
        ("the Italian language", "Italian", ""),
        ("Italian-speaking towns", "Italian", ""),
        # What no KB has, and what is no such word.
        ("a Polish film", "Polish", ""),
        ("polish the brass", "polish", ""),
        ("an italian singer", "italian", ""),
        # Short forms, with their dot or before it.
        ("Columbus, Ga., is hot", "Ga.", "Georgia"),
        ("Columbus, Ga., is hot", "Ga", "Georgia"),
        ("Ga is a sound", "Ga", ""),
        ("They lay in Ga. Then", "Ga", ""),
        ("They went to Mass. Then", "Mass", ""),
        ("Fresno, Calif., said", "Calif.", "California"),
    ],
)
def test_what_a_word_stands_for(text: str, word: str, expected: str) -> None:
    assert place(text, word) == expected


def test_short_forms_stand_behind_a_town() -> None:
    text = "Columbus, Ga., and Fargo, N.D. Miss. Dillard, La, W.Va. Reno, Nev.ada Elkins, W. Va."
    assert [(text[one.start : one.end], one.place) for one in short_places(text)] == [
        ("Ga.", "Georgia"), ("N.D.", "North Dakota"), ("W.Va.", "West Virginia"),
        ("W. Va.", "West Virginia"),
    ]  # fmt: skip


def test_a_long_text_is_read_in_linear_time() -> None:
    def seconds(length: int) -> float:
        text = "a, W. " * (length // 6)
        began = time.process_time()
        assert not list(short_places(text))
        return time.process_time() - began

    seconds(60_000)
    assert seconds(600_000) < 40 * seconds(60_000) + 0.5
