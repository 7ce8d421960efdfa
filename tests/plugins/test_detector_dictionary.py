"""The dictionary detector: its contract, borders of words, exact offsets, overlaps."""

from __future__ import annotations

from functools import partial

import pytest

from alias_names import Names, found
from kglink.testing import DetectorContract
from kglink.text.words import non_overlapping
from kglink_plugins.detectors.dictionary.finder import Match, dictionary_detector, longest_first
from kglink_plugins.plugin import DictionarySettings


class TestContract(DetectorContract):
    plugin = "kglink/dictionary"
    finds = (
        ("Ada met Bob at Lantern Bay.", ["Ada", "Bob", "Lantern Bay"]),
        ("STRASSE und Zoe", ["STRASSE", "Zoe"]),
    )


@pytest.mark.parametrize(
    ("text", "surface", "spans"),
    [
        ("lung cancer", "lung cancer", [(0, 11)]),
        ("(Lung-\r\n\tCancer)", "lung cancer", [(1, 15)]),
        ("ＬＵＮＧ　cancer", "lung cancer", [(0, 11)]),
        ("precancer cancers cancer2 cancer_x", "cancer", [(26, 32)]),
        ("👩\u200d🔬cancer👍🏽", "cancer", [(3, 9)]),
        ("e\u0301tude, cafe\u0301.", "café", [(8, 13)]),
        ("cafe\u0301s", "café", []),
        ("İZMİR izmir Izmir", "İzmir", [(0, 5), (6, 11), (12, 17)]),
        ("Straße STRASSE", "strasse", [(0, 6), (7, 14)]),
        ("مُحَمَّد في القاهرة", "محمد", [(0, 8)]),
        ("والقاهرة وبالقاهرة", "القاهرة", [(1, 8), (11, 18)]),
        ("سالقاهرة ووبالقاهرة", "القاهرة", []),
        ("東京都に行く", "東京", [(0, 2)]),
        ("ﾄｳｷｮｳﾀﾜｰ", "トウキョウ", [(0, 5)]),
        ("서울에서 남서울", "서울", [(0, 2)]),
        ("नमस्ते दुनिया", "दुनिया", [(7, 13)]),
        ("एक दुनियाँ", "दुनिया", []),
        ("C++, C#, C", "C#", [(5, 7)]),
        ("Use .NET at Yahoo! now", "Yahoo!", [(12, 18)]),
        ("Use .NET.", ".NET", [(4, 8)]),
        ("in the U.S. today", "U.S.", [(7, 11)]),
        ("'Ada'", "Ada", [(1, 4)]),
        ("a\ud83dAda", "Ada", [(2, 5)]),
        ("½ cup of tea", "1 2 cup", [(0, 5)]),
        ("I.L.-2", "il 2", []),
    ],
)
def test_spans_are_exact(text: str, surface: str, spans: list[tuple[int, int]]) -> None:
    detector = dictionary_detector(DictionarySettings(), Names([surface]))
    assert [(span.start, span.end) for span in detector.detect(text)] == spans


def test_a_single_letter_is_not_found_in_a_longer_sign() -> None:
    assert found("C, C++ and C#", "C", min_chars=1) == ["C"]
    assert found("C, C++ and C#", "C", "C++", "C#", min_chars=1) == ["C", "C++", "C#"]


def test_what_is_compiled() -> None:
    text = "x 12 ab 3.5% " + "long " * 3
    assert found(text, "x", "12", "ab", "3.5%", "long long long") == ["ab", "long long long"]
    assert found(text, "x", "12", "3.5%", numbers=True, min_chars=1) == ["x", "12", "3.5%"]
    assert found(text, "long long long", max_chars=13) == []
    assert found(text, "long long long", max_chars=14) == ["long long long"]
    assert found("!!! ...", "!!!", "...") == []
    assert found("EAN 4006381333931, 12345.", "4006381333931", "12345") == ["4006381333931"]


def test_no_names_no_spans() -> None:
    assert found("Ada") == []
    assert found("", "Ada") == []


@pytest.mark.parametrize(
    ("text", "surfaces", "expected"),
    [
        (
            "non small cell lung cancer",
            ["lung cancer", "cell", "small cell lung"],
            ["small cell lung"],
        ),
        ("new york city hall", ["new york", "york city", "city hall"], ["york city"]),
        ("new york town hall", ["new york", "york town", "town hall"], ["york town"]),
        ("aa bb cc dd", ["aa bb", "bb cc", "cc dd"], ["aa bb", "cc dd"]),
        ("東京都庁", ["東京", "京都", "都庁"], ["東京", "都庁"]),
        ("日本国中", ["日本国", "国中"], ["日本国"]),
    ],
)
def test_longest_then_leftmost(text: str, surfaces: list[str], expected: list[str]) -> None:
    assert found(text, *surfaces) == expected


def test_the_more_frequent_stays_where_lengths_are_equal() -> None:
    names = Names(["aa bb", "bb cc", "cc dd"], counts={"bb cc": 9})
    (span,) = dictionary_detector(DictionarySettings(), names).detect("aa bb cc dd")
    assert (span.start, span.end) == (3, 8)


def test_without_overlaps_compares_size_then_frequency_then_place() -> None:
    without_overlaps = partial(non_overlapping, preference=longest_first)
    first, second, third = Match(0, 5, 5, 1, 1.0), Match(3, 8, 5, 2, 1.0), Match(8, 9, 1, 1, 1.0)
    assert without_overlaps([third, second, first]) == [second, third]
    assert without_overlaps([first, third._replace(start=5, end=6)]) == [
        first,
        third._replace(start=5, end=6),
    ]
    longer = Match(4, 9, 6, 1, 1.0)
    assert without_overlaps([first, second, longer, third]) == [longer]
    assert without_overlaps([]) == []
