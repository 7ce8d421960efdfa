"""The dictionary detector's guard against common words, and its scores."""

from __future__ import annotations

import pytest

from alias_names import found, score
from kglink.text.sentences import begins_sentence
from kglink_plugins.detectors.dictionary.guard import among_capitals


@pytest.mark.parametrize(
    ("text", "surfaces", "expected"),
    [
        # Function words: only as written, not where a sentence or a line in capitals makes them so.
        ("It is what it is, and IT it is.", ["It", "IT"], ["IT"]),
        ("They read It aloud.", ["It"], ["It"]),
        ("the us and the US", ["US", "us"], ["US"]),
        ("LET US ALL HOPE", ["US"], []),
        ("May I come in May?", ["May"], ["May"]),
        ("It ended. May came.\n\nMay went. «May»", ["May"], []),
        ("The Who played the who.", ["The Who"], ["The Who"]),
        ("It is late. It Is late", ["It Is"], ["It Is"]),
        # Acronyms of up to four letters need capitals.
        ("AIDS aids Aids", ["AIDS"], ["AIDS"]),
        ("AIDS aids", ["AIDS", "Aids"], ["AIDS", "aids"]),
        ("NASDAQ nasdaq", ["NASDAQ"], ["NASDAQ", "nasdaq"]),
        # Common words need a capital unless a name has none.
        ("We saw light, and Light saw us.", ["Light"], ["Light"]),
        ("We saw light.", ["Light", "light"], ["light"]),
        ("We saw bright light.", ["Bright Light"], ["bright light"]),
        # Any other word.
        ("carcinoma Carcinoma CARCINOMA", ["Carcinoma"], ["carcinoma", "Carcinoma", "CARCINOMA"]),
    ],
)
def test_smart_case(text: str, surfaces: list[str], expected: list[str]) -> None:
    assert found(text, *surfaces) == expected


def test_never_looks_at_case_and_refuses_function_words() -> None:
    assert found("IT aids Light light", "IT", "AIDS", "Light", match_case="never") == [
        "aids",
        "Light",
        "light",
    ]


def test_always_wants_the_same_case() -> None:
    text = "Lung cancer, lung cancer, LUNG CANCER, Lung Cancer"
    assert found(text, "lung cancer", match_case="always") == ["lung cancer"]
    assert found(text, "Lung cancer", match_case="always") == ["Lung cancer", "Lung Cancer"]
    assert found("iPhone IPhone iphone", "iPhone", match_case="always") == ["iPhone", "IPhone"]


def test_stop_words_are_added_to_the_english_ones() -> None:
    assert found("der und Die", "der", "Die") == ["der", "Die"]
    assert found("der und Die", "der", "Die", stop_words=("der", "die")) == ["Die"]
    assert found("über Über", "Über", stop_words=("Über",)) == ["Über"]


def test_acronym_chars() -> None:
    assert found("nasdaq", "NASDAQ", acronym_chars=6) == []
    assert found("aids", "AIDS", acronym_chars=3) == ["aids"]


def test_scores_say_how_near_the_case_is() -> None:
    assert score("a Carcinoma", "Carcinoma") == 1.0
    assert score("a CARCINOMA", "Carcinoma", "MELANOMA", "CARCINOMA-") == 0.9
    assert score("Carcinoma is", "carcinoma") == 0.9
    assert score("a carcinoma", "Carcinoma") == 0.7
    assert score("lung-cancer", "Lung cancer") == 0.8
    assert score("Light shines", "Light") == 0.4
    assert score("in May", "May") == 0.7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X", True),
        ("end. X", True),
        ("end.” (X", True),
        ("end:\n\n- X", True),
        ("line\nX", False),
        ("line\r\n\r\nX", True),
        ("word X", False),
        ("word - X", False),
        ("終わり。X", True),
        (" " * 100 + "X", True),
    ],
)
def test_begins_sentence(text: str, expected: bool) -> None:
    assert begins_sentence(text, len(text) - 1) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LET @ BE", True),
        ("the NASA @ flag", False),
        ("@ NASA", False),
        ("NASA AND @", True),
        ("Two Words @", False),
    ],
)
def test_among_capitals(text: str, expected: bool) -> None:
    place = text.index("@")
    assert among_capitals(text, place, place + 1) is expected
