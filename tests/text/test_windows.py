"""The context window of a mention."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.text.words import (
    cuts_word,
    in_one_line,
    mention_window,
)


@pytest.mark.parametrize(
    ("text", "mention", "room", "window"),
    [
        ("one two three four five", "three", 13, "two three"),
        ("one two three four five", "three", 15, "two three four"),
        ("one two three four five", "three", 100, "one two three four five"),
        # What one side does not need goes to the other.
        ("one two three four five", "one", 13, "one two three"),
        ("one two three four five", "five", 13, "four five"),
        ("one two three four five", "five", 15, "three four five"),
        # The mention stays whole.
        ("one two three four five", "two three four", 3, "two three four"),
        ("one two three four five", "three", 0, "three"),
        # Scripts without spaces are cut between characters, not between a character and its mark.
        ("私は東京に住んでいます", "東京", 6, "私は東京に住"),
        ("ab 👩\u200d🔬 x", "x", 3, "x"),
        ("x e\u0301e\u0301", "x", 4, "x"),
    ],
)
def test_mention_window(text: str, mention: str, room: int, window: str) -> None:
    start = text.index(mention)
    assert mention_window(text, start, start + len(mention), room) == window


@given(
    st.text(st.sampled_from("abé 東\u0301\u200d👩\r\n.,"), min_size=1, max_size=60),
    st.data(),
    st.integers(0, 40),
)
def test_a_window_is_a_part_of_the_text_around_the_mention(
    text: str, data: st.DataObject, room: int
) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    window = mention_window(text, start, end, room)
    assert len(window) <= max(room, end - start)
    places = [
        first
        for first in range(start + 1)
        if text.startswith(window, first) and first + len(window) >= end
    ]
    assert places
    # At one of the places where it stands, no side goes through a word.
    assert any(
        (first == start or not cuts_word(text, first))
        and (first + len(window) == end or not cuts_word(text, first + len(window)))
        for first in places
    )


def test_a_name_is_written_in_one_line() -> None:
    assert in_one_line("George  W.\r\n  Bush") == "George W. Bush"
