"""Words of any text with their offsets, and windows in which each word counts once."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.models.source import describe_folder
from kglink.models.tag_inputs import WordPieces, word_spans
from tiny_models import write_model

TEXTS = st.text(st.characters(codec=None), max_size=60) | st.text(
    "a -.\u0301👩\u200d語ж", max_size=60
)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> WordPieces:
    folder = write_model(tmp_path_factory.mktemp("tiny"))
    return WordPieces(describe_folder("tiny", folder), tokens=12)


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_spans(text)]


def test_words_are_runs_of_letters_and_single_signs() -> None:
    assert words("A-T (ataxia), 3rd") == ["A", "-", "T", "(", "ataxia", ")", ",", "3rd"]
    assert words("snake_case") == ["snake", "_", "case"]
    assert words("e\u0301tude हिन्दी") == ["e\u0301tude", "हिन्दी"]  # marks stay on their letters
    assert words("日本語 ok") == ["日", "本", "語", "ok"]
    assert words("שלום עולם") == ["שלום", "עולם"]
    assert words(" \n") == []


@given(TEXTS)
def test_words_hold_all_but_spaces_in_order(text: str) -> None:
    spans = list(word_spans(text))
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(spans))
    assert "".join(words(text)) == "".join(text.split())


@given(TEXTS)
def test_words_of_a_model_stand_in_the_text(pieces: WordPieces, text: str) -> None:
    found = pieces.words(text)
    known = set(word_spans(text))
    places = list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))
    assert set(places) <= known
    assert places == sorted(places)
    assert all(len(ids) for ids in found.pieces)


@given(st.lists(st.sampled_from(["amber", "heron", "of", "xyz", "a"]), max_size=60))
def test_every_word_counts_in_one_window_that_shows_it(pieces: WordPieces, said: list[str]) -> None:
    found = pieces.words(" ".join(said))
    counted = []
    for window in pieces.windows(found):
        assert len(window.ids) <= pieces.tokens
        for word, place in zip(range(window.first, window.stop), window.places, strict=True):
            own = found.pieces[word]
            assert window.ids[place : place + len(own)].tolist() == own.tolist()
            counted.append(word)
    assert counted == list(range(len(found)))


def test_a_word_next_to_a_seam_is_read_with_both_neighbours(pieces: WordPieces) -> None:
    windows = pieces.windows(pieces.words("amber heron " * 20))
    for left, right in itertools.pairwise(windows):
        assert left.places[-1] < len(left.ids) - 2  # a word follows the last one that counts
        assert right.places[0] > 1  # and one stands before the first


@given(st.text("ab .é", max_size=80), st.integers(4, 9))
def test_blocks_are_the_text_and_share_words(pieces: WordPieces, text: str, count: int) -> None:
    blocks = list(pieces.blocks(text, count, shared=2))
    assert [block.is_last for block in blocks] == [False] * (len(blocks) - 1) + [True]
    assert blocks[0].start == 0
    assert blocks[-1].stop == len(text)
    assert all(left.stop == right.start for left, right in itertools.pairwise(blocks))
    whole = pieces.words(text).starts.tolist()
    own = [
        start
        for block in blocks
        for start in block.words.starts.tolist()
        if block.start <= start < block.stop
    ]
    assert own == whole


def test_a_word_of_a_megabyte_costs_no_more_than_its_beginning(pieces: WordPieces) -> None:
    found = pieces.words("a" * 1_000_000 + " heron")
    assert found.ends.tolist() == [1_000_000, 1_000_006]
    assert len(found.pieces[0]) <= 16
