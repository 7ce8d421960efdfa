"""Texts as they are read, and where their words stand."""

from __future__ import annotations

import re
import textwrap
import time
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.text.plain import raised, read_plainly, to_the_letter

SIGNS = "aB1 \n\r\t>.,-\xad\u200b\ufeff\u00a0\u2011²¹ᵃ\u200dé👩\u0301\u0316\u1112\u1161\u11ab\ufb1d"
WORDS = (
    "The heron and the osprey of Lantern Bay fish at dawn, which the keepers of the lighthouse "
    "write down in a book that nobody but the Harbour Board of Port Selwyn has ever read in full."
)


@given(st.text(st.sampled_from(SIGNS), max_size=60))
def test_each_sign_stands_where_its_place_says(text: str) -> None:
    plain = read_plainly(text)
    places = [plain.place(at, at + 1) for at in range(len(plain.text))]
    assert all(first < last for first, last in places)
    assert [first for first, _ in places] == sorted({first for first, _ in places})
    letters = re.finditer("\\w[\u0301\u0316\u1161\u11ab]{1,30}", text)
    within = {at for one in letters for at in range(one.start() + 1, one.end())}
    for sign, (first, last) in zip(plain.text, places, strict=True):
        assert last <= len(text)
        assert last not in within
        assert sign in " \n-" or sign in text[first] + normalize("NFC", text[first:last])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Rome¹, U.S.² EU³,⁴ 5 km² Ca²⁺ 10⁶ Smithᵃ.", "Rome, U.S. EU 5 km² Ca²⁺ 10⁶ Smith."),
        ("CO² RNA³ E=MC² XIXᵉ", "CO² RNA E=MC² XIXᵉ"),
        ("Cafe\u0301¹, Ha\u0300 No\u0323\u0302i\u200e² is", "Café, Hà Nội is"),
        ("Rome¹⁻³, Oslo¹–³ and Bergen¹, ³.", "Rome, Oslo and Bergen."),
        ("> a\n> \n> b\r\n  \r\n c\n\t\n", "a\n\nb\n\nc\n\n"),
        ("\u202aRome\u202c, \u2067\u05d0\u2069\u200f Ｏｓｌｏ１２，", "Rome, \u05d0 Oslo12，"),
        ("ﾄﾄﾛとﾎﾟｹﾓﾝ", "トトロとポケモン"),
        ("\u200bRome\u200b \ufeffOs\xadlo fa\xad\n  > ther", "Rome Oslo father"),
        ("a  b   c    d\te", "a b c    d\te"),
        ("a \r\n> > b\r\rc\n\n d", "a\nb\n\nc\n\nd"),
        ("Ha\u0300 No\u0323\u0302i, \u1112\u1161\u11ab, \u30ab\u3099", "Hà Nội, 한, ガ"),
        ("the\u00a0heron\u02bcs\u2009nest, well\u2011known", "the heron\u2019s nest, well-known"),
        ("T\u02bciis Názbąs, Luk\u02bcyan", "T\u02bciis Názbąs, Luk\u02bcyan"),
        ("मुंबई\u200dका 👩\u200d💻", "मुंबई\u200dका 👩\u200d💻"),
    ],
)  # fmt: skip
def test_what_is_read(text: str, read: str) -> None:
    assert read_plainly(text).text == read


@pytest.mark.parametrize("mark", ["", "> ", "    "])
@pytest.mark.parametrize("width", [60, 72, 100])
def test_lines_that_were_wrapped_are_one(width: int, mark: str) -> None:
    lines = textwrap.wrap(WORDS, width)
    text = f"Letter\n\n{mark}" + f"\n{mark}".join(lines) + f"\n\n{mark}Yours"
    plain = read_plainly(text)
    assert plain.text.strip() == f"Letter\n\n{WORDS}\n\nYours"
    start = plain.text.index("Harbour Board")
    first, last = plain.place(start, start + len("Harbour Board"))
    assert (
        "".join(text[first:last].split())
        == "Harbour" + mark.strip() * ("\n" in text[first:last]) + "Board"
    )


def test_paragraphs_of_wrapped_lines_stay_apart() -> None:
    paragraphs = "\n".join(textwrap.fill(WORDS, 60) for _ in range(3))
    assert read_plainly(paragraphs).text == "\n".join([WORDS] * 3)


@pytest.mark.parametrize(
    "text",
    [
        "Grey heron\nOsprey\nHeron Lamp",
        "\n".join(textwrap.shorten(WORDS, width) for width in (90, 60, 75)),  # headlines
        f"{textwrap.shorten(WORDS, 60)}\n- {textwrap.shorten(WORDS, 50)}",
        f"{WORDS}\n{WORDS}",
        f"{textwrap.shorten(WORDS, 90)}\nJane Smith, Bergen",
        "\n".join(
            f"2026-01-0{at} INFO the heron of Lantern Bay was seen at dawn by {at}"
            for at in range(9)
        ),
        "\n".join(f"Norway {at}    {WORDS[:50]}." for at in range(9)),
        "\n".join(f"{WORDS[:60]},{at},{at}" for at in range(9)),
        "\n".join(f"[{at}] {textwrap.shorten(WORDS, 70)}" for at in range(9)),
        f"{textwrap.shorten(WORDS, 90)}\n{'=' * 60}",
        f"Ann: {textwrap.shorten(WORDS, 90)}\nBob: Yes.\nAnn: No.",
    ],
)
def test_other_lines_end_where_they_end(text: str) -> None:
    assert read_plainly(text).text == text


@pytest.mark.parametrize(
    "text",
    ["a" + "\u200b" * 200_000 + "b", "abc" + "²" * 200_000 + "c", " \t" * 200_000 + "x",
     "\n >" * 200_000, "\xad \n" * 100_000, "a\n" * 200_000, "abc²," * 100_000,
     "e" + "\u0301" * 64_000 + "\u0316" * 64_000, "\u1161" * 200_000],
)  # fmt: skip
def test_a_hostile_text_is_read_in_the_time_of_one_pass(text: str) -> None:
    begin = time.process_time()
    read_plainly(text)
    to_the_letter(text)
    assert time.process_time() - begin < 3


def test_raised() -> None:
    said = ["1", "2,3", "1–3", "TM", "a", "a, b", "e", "[4]", "+", ""]
    assert list(map(raised, said)) == ["¹", "²,³", "¹⁻³", "™", "ᵃ", "ᵃ, ᵇ", "e", "[4]", "⁺", ""]
