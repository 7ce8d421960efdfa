"""Whatever a text is made of, each mention that is found or given stands in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kglink.records import LinkedDocument, Span, TextInput
from kglink.testing.contracts.base import NASTY_TEXTS
from kglink.workspace import Workspace, init_workspace

GARDEN = Path(__file__).parents[2] / "docs" / "examples" / "garden.csv"
#: Names of the catalogue, whole and broken, between what texts are full of.
PARTS = st.sampled_from([
    "hedge trimmer", "hedge-trimmers", "Harrow 2000", "H3500", "watering can", "wheel barrow",
    "hegde", "trimmer", " ", "  ", "\r\n", "\t", ".", "(", ")", "-", "'s", "é", "e\u0301", "ß",
    "👩\u200d🌾", "🪴", "שלום", "\u202e", "حديقة", "東京", "\u200b", "ﬁ", "İ", "\x00", "\ud800",
    "(watering can, WC)", "WC", "l0pp3r", "tr1mm er",
])  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with Workspace.open(init_workspace(tmp_path_factory.mktemp("shop"))) as workspace:
        workspace.add_kb("garden", GARDEN)
        workspace.build()
        yield workspace


def check(document: LinkedDocument, text: str) -> list[str]:
    """The surfaces of a document's links, each of which stands where its offsets say."""
    assert document.text == text
    for link in document.links:
        assert 0 <= link.start < link.end <= len(text)
        assert text[link.start : link.end] == link.surface
    return [link.surface for link in document.links]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(parts=st.lists(PARTS, max_size=16))
def test_found_mentions_stand_in_the_text(shop: Workspace, parts: list[str]) -> None:
    text = "".join(parts)
    (document,) = shop.link([TextInput("any", text)])
    check(document, text)
    ends = [0, *(link.end for link in document.links)]
    assert all(end <= link.start for end, link in zip(ends, document.links, strict=False))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_given_mentions_may_cross_and_are_all_answered(
    shop: Workspace, data: st.DataObject
) -> None:
    text = data.draw(st.lists(PARTS, min_size=1, max_size=8).map("".join))
    place = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))
    places = {pair for pair in data.draw(st.lists(place, max_size=5)) if pair[0] < pair[1]}
    spans = tuple(Span(*pair) for pair in places)
    (document,) = shop.link([TextInput("given", text, spans)])
    check(document, text)
    assert [(link.start, link.end) for link in document.links] == sorted(places)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("🪴 hedge trimmer 👩\u200d🌾🏽, 🚿 watering cans!", ["hedge trimmer", "watering cans"]),
        ("אני צריך hedge trimmer חדש בבקשה, וגם watering can.", ["hedge trimmer", "watering can"]),
        ("أريد \u202bhedge trimmer\u202c من فضلك.", ["hedge trimmer"]),
        # Read off a bad scan: letters are wrong, words are broken over lines.
        ("Two hedge trirnmers, one watering\ncan and a leaf b1ower ,,. |", ["watering\ncan"]),
    ],
)  # fmt: skip
def test_emoji_right_to_left_and_scans(shop: Workspace, text: str, found: list[str]) -> None:
    (document,) = shop.link([TextInput("odd", text)])
    assert check(document, text) == found


@pytest.mark.parametrize(
    "text",
    [
        *NASTY_TEXTS,
        "x" * 1_000_000,
        "\u0301" * 100_000,
        "👩🏽" * 50_000,
        "(" * 100_000 + "hedge trimmer" + ")" * 100_000,
    ],
    ids=lambda text: f"{text[:8]!a} {len(text)}",
)
def test_nasty_texts_are_linked(shop: Workspace, text: str) -> None:
    (document,) = shop.link([TextInput("nasty", text)])
    check(document, text)


def test_a_mention_stands_behind_a_word_of_a_megabyte(shop: Workspace) -> None:
    text = "A " + "x" * 1_000_000 + " and a hedge trimmer."
    (document,) = shop.link([TextInput("long", text)])
    assert check(document, text) == ["hedge trimmer"]
