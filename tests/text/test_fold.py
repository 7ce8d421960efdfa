"""Folding: what becomes one spelling, what stays apart, and the map back to the original."""

from __future__ import annotations

import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.errors import SourceError
from kglink.text.fold import PIECE, fold, fold_in_pieces, fold_with_map

#: Characters that are hard to fold: expanding, composing, joining, invisible, half of a pair.
HARD = (
    "aA ßéİıǅﬃ½²ﷺ™®'’-_/\t\r\n\u00ad\u200b\u200d\u0301\u0345\u3099\u093f\u05b0\u064bか"
    "\u1100\u1161\u11a8한ｶﾞ👨👩🏽🇩🇪\ufe0fក្\ud83d"
)
TEXTS = st.text(st.one_of(st.sampled_from(HARD), st.characters()))


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Straße STRASSE", "strasse strasse"),
        ("Ａｄａ　Ｌｏｖｅｌａｃｅ", "ada lovelace"),
        ("Gödel, Kurt", "godel kurt"),
        ("Go\u0308del", "godel"),
        ("Łódź, Ørsted, Đorđe, Þór, Æsir", "lodz orsted dorde thor aesir"),
        ("İstanbul, ISTANBUL, ıstanbul", "istanbul istanbul istanbul"),
        ("ΟΔΥΣΣΕΥΣ Ὀδυσσεύς ᾳ", "οδυσσευσ οδυσσευσ α"),
        ("Ёлка, Й", "елка и"),
        ("Addison’s disease", "addison s disease"),
        ("«beta»-catenin/TCF_1", "beta catenin tcf 1"),
        ("a\r\n\tb\u00a0\u2003c", "a b c"),
        ("C C# C++ R&D 50% @ada", "c c# c++ r&d 50% @ada"),
        ("co\u00adoperate zero\u200bwidth", "cooperate zerowidth"),
        ("Tylenol® Kleenex™", "tylenol kleenex"),
        ("ﬁnal x² Ⅳ", "final x2 iv"),
        ("` ´ ¨ ^ ~ |", ""),
        ("", ""),
        ("...", ""),
        # Scripts in which marks are letters stay whole.
        ("हिन्दी", "हिन्दी"),
        ("ภาษาไทย", "ภาษาไทย"),
        ("が か\u3099 ｶﾞ", "が が ガ"),
        ("한국 \u1112\u1161\u11ab", "한국 한"),
        # Harakat, tatweel and points are accents.
        ("مُحَمَّد محمـد", "محمد محمد"),
        ("שָׁלוֹם", "שלום"),
        ("👩\u200d🔬👍🏽", "👩🔬👍"),
    ],
)
def test_fold(text: str, folded: str) -> None:
    assert fold(text) == folded
    assert fold_with_map(text).text == folded


def test_every_character_folds_to_a_fixed_point() -> None:
    for point in range(0x110000):
        if unicodedata.category(chr(point)) in {"Cn", "Co"}:
            continue  # unassigned and private characters have no properties to fold by
        folded = fold(f"x{chr(point)}y")
        if fold(folded) != folded:
            pytest.fail(f"U+{point:04X} folds to {folded!r}, and that to {fold(folded)!r}")


@given(TEXTS)
def test_fold_is_idempotent_and_the_map_has_the_same_text(text: str) -> None:
    folded = fold(text)
    assert fold(folded) == folded
    assert fold_with_map(text).text == folded
    assert folded == folded.strip(" ")
    assert "  " not in folded
    assert unicodedata.is_normalized("NFC", folded)


@given(TEXTS)
def test_ranges_are_in_order_and_cover_what_they_stand_for(text: str) -> None:
    folded, starts, ends = fold_with_map(text)
    assert len(folded) == len(starts) == len(ends)
    for place, character in enumerate(folded):
        start, end = int(starts[place]), int(ends[place])
        assert 0 <= start < end <= len(text)
        if place:
            # The same visible character, or one that begins where the last has ended, or later.
            before = int(starts[place - 1]), int(ends[place - 1])
            assert (start, end) == before or start >= before[1]
        if character != " ":
            assert character in fold(text[start:end])


@given(TEXTS)
def test_ranges_never_split_a_visible_character(text: str) -> None:
    _, starts, ends = fold_with_map(text)
    for cut in {*starts.tolist(), *ends.tolist()} - {0, len(text)}:
        left, right = text[cut - 1], text[cut]
        assert (left, right) != ("\r", "\n")
        if not fold(left) and unicodedata.category(left)[0] != "C":
            continue  # a trade sign or mark behind what was dropped altogether
        accent = unicodedata.category(right) in {"Mn", "Me"} and not fold(right)
        assert not (accent and fold(left) not in {"", " "}), f"{left!r}|{right!r} in {text!r}"


@pytest.mark.parametrize(
    ("text", "part", "original"),
    [
        ("die Straße!", "strasse", "Straße"),
        ("a Go\u0308del b", "godel", "Go\u0308del"),
        ("cafe\u0301 noir", "cafe", "cafe\u0301"),
        ("x 👨\u200d👩\u200d👧 y", "👨👩👧", "👨\u200d👩\u200d👧"),
        # A part of what a reader sees as one character is the whole of it.
        ("x 👨\u200d👩\u200d👧 y", "👩", "👨\u200d👩\u200d👧"),
        ("🇩🇪🇫🇷", "🇫", "🇫🇷"),
        ("👍🏽 ok", "👍", "👍🏽"),
        ("lung\r\n  cancer", "lung cancer", "lung\r\n  cancer"),
        ("lung - cancer,", "g c", "g - c"),
        ("Ｆｕｌｌ　ｗｉｄｔｈ", "full width", "Ｆｕｌｌ　ｗｉｄｔｈ"),
        ("take Tylenol® now", "tylenol", "Tylenol"),
        ("co\u00adop\u00ad.", "coop", "co\u00adop"),
        ("ﾊﾟﾝ", "パン", "ﾊﾟﾝ"),
        ("\u1112\u1161\u11ab글", "한", "\u1112\u1161\u11ab"),
        ("नमस्ते दुनिया", "दुनिया", "दुनिया"),
        ("½ cup", "2 cup", "½ cup"),
    ],
)
def test_span_maps_back(text: str, part: str, original: str) -> None:
    folded = fold_with_map(text)
    place = folded.text.index(part)
    start, end = folded.span(place, place + len(part))
    assert text[start:end] == original


def test_lone_surrogates_are_spaces() -> None:
    assert fold("a\ud83db") == "a b"
    assert fold_with_map("a\ud83d\ude00b").span(1, 2) == (1, 3)


#: Marks of two orders: NFC swaps them, one by one.
SWAPPED = "\u0e48\u0e38"


@pytest.mark.parametrize("marks", ["\u0e48" * 45, SWAPPED * 20, "\u3099" * 40])
@pytest.mark.parametrize("before", ["", "\u0e01", "\u304b", "a b"])
@pytest.mark.parametrize("after", ["", " a", "\u0e01" + SWAPPED * 3])
def test_no_letter_bears_more_than_thirty_marks(before: str, marks: str, after: str) -> None:
    text = before + marks + after
    folded = fold(text)
    assert fold(folded) == folded
    mapped = fold_with_map(text)
    assert mapped.text == folded
    assert len(mapped.starts) == len(mapped.ends) == len(folded)
    assert fold(before + marks[:30] + after) == folded


@pytest.mark.slow
def test_a_million_marks_take_no_time() -> None:
    """Bringing marks into order takes time that grows with the square of their number."""
    text = "\u0e01" + SWAPPED * 500_000
    started = time.monotonic()
    assert len(fold(text)) == 31
    assert fold_with_map(text).text == fold(text)
    assert time.monotonic() - started < 20


# -------------------------------------------------------------------------- texts that grow
@given(TEXTS, st.integers(1, 7))
def test_pieces_change_nothing(text: str, size: int) -> None:
    assert fold_in_pieces(text, size) == fold(text)


def test_a_long_text_is_folded_in_pieces_to_the_same() -> None:
    text = "Ĳsselmeer  é\u0301 ﷺ; " * 10_000
    assert len(text) > PIECE
    assert fold(text) == " ".join([fold("Ĳsselmeer  é\u0301 ﷺ; ")] * 10_000)


def test_a_text_that_grows_beyond_the_limit_is_refused_in_one_sentence() -> None:
    with pytest.raises(SourceError, match="a text of 100,000 characters folds into more than 1,0"):
        fold("\ufdfa" * 100_000, 1_000_000)
    assert len(fold("\ufdfa" * 100_000)) == 1_800_000


def test_ten_million_signs_of_eighteen_letters_need_little_memory() -> None:
    attack = (
        "import resource\n"
        "from kglink.errors import SourceError\n"
        "from kglink.text.fold import fold\n"
        "text = chr(0xFDFA) * 10_000_000\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: fold(text)\n"
        "except SourceError as error: print(error.message)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    ran = subprocess.run([sys.executable, "-c", attack], capture_output=True, text=True, check=True)
    said, grown = ran.stdout.splitlines()
    assert said == "a text of 10,000,000 characters folds into more than 32,000,000"
    assert int(grown) < 200  # MiB; it was 3,700
