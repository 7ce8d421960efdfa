"""Texts and headlines in capitals, lower case or Title Case."""

from __future__ import annotations

import pytest

from alias_names import Names
from kglink_plugins.detectors.dictionary.detector import name_detector
from kglink_plugins.detectors.dictionary.text_words import in_usual_case
from kglink_plugins.plugin import DictionarySettings

NAMES = (
    "Asturias",
    "United States",
    "the United States",
    "retinoblastoma",
    "ALD",
    "Addison",
    "light",
)
TEXT = "The Kingdom of Asturias is older than the United States, and light is nothing there."


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("WITH ADDISON'S AND THE ALD OF O'BRIEN", "with Addison's and the ALD of O'Brien"),
        ("NO RETINOBLASTOMA OF THE RPE IN FRANCE", "no retinoblastoma of the RPE in France"),
        ("of france who was obama's in zlotyville", "of France who was Obama's in Zlotyville"),
        ("The ALD of Addison", "The ALD of Addison"),
        ("OF ASTURIAS AND", "OF ASTURIAS AND"),  # too few words
        ("DER KÖNIG UND DIE KÖNIGIN VON ASTURIAS", "DER KÖNIG UND DIE KÖNIGIN VON ASTURIAS"),
        ("Light-Induced Fever from ALD in Ohio", "light-induced fever from ALD in Ohio"),
        ("of it.\r\nThe Fever of Light in France\n", "of it.\r\nthe fever of light in France\n"),
        ("United States, Obama, Zlotyville, France", "United States, Obama, Zlotyville, France"),
        ("Die Therapie Der Asturias Und Das Ende", "Die Therapie Der Asturias Und Das Ende"),
        ("WAS THE \u0130 OF THE STRASSE THERE", "was the \u0130 of the Strasse there"),
        ("1 2 3 4 5", "1 2 3 4 5"),
    ],
)  # fmt: skip
def test_the_usual_case(text: str, usual: str) -> None:
    found = in_usual_case(text, NAMES.__contains__)
    assert found == usual
    assert len(found) == len(text)


@pytest.mark.parametrize("case", [str, str.upper, str.lower, str.title])
def test_names_are_found_in_texts_of_one_case(case: type[str]) -> None:
    detector = name_detector(DictionarySettings(), Names([*NAMES, "Port Selwyn", "stone bridge"]))
    text = case(TEXT)
    scores = {TEXT[one.start : one.end]: one.score for one in detector.detect(text)}
    best = [name for name, score in scores.items() if score > 0.5]
    assert best == ["Asturias", "United States"]
