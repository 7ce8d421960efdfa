"""The language of a text is guessed, or not known; never a failure."""

from __future__ import annotations

import pytest

from kglink.testing.contracts.base import NASTY_TEXTS
from kglink.text.language import language_of


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Please order two replacement lamps for the Heron."),
        ("en", "Identification of APC2, a homologue of the adenomatous polyposis coli suppressor"),
        ("de", "Bitte schicken Sie mir zwei Lampen für den Reiher."),
        ("de", "Wo ist meine Bestellung?"),
        ("de", "Die Schneefräsen wurden geliefert."),
        ("fr", "La maladie de Crohn est une maladie inflammatoire chronique."),
        ("es", "¿Dónde está mi pedido? No lo he recibido."),
        ("it", "La malattia di Crohn è una malattia infiammatoria cronica dell'intestino."),
        ("pt", "A doença de Crohn é uma doença inflamatória do intestino."),
        ("nl", "De ziekte van Crohn is een chronische ontsteking van de darm."),
        ("sv", "Crohns sjukdom är en inflammatorisk sjukdom som kan drabba hela tarmen."),
        ("pl", "Choroba jest przewlekła i może się pojawić w całym jelicie."),
        ("ja", "クローン病は慢性の病気です。"),
        ("zh", "克罗恩病是一种慢性疾病。"),
        ("ko", "크론병은 만성 질환이다"),
        ("ru", "Болезнь Крона — это хроническое заболевание."),
        ("uk", "Хвороба Крона — це хронічне захворювання, її лікують у лікарні."),
    ],
)
def test_sentences_have_their_language(language: str, text: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize("text", ["", "Heron", "Isolde Heron", "1234 - 55", "BRCA1 TP53", "😀😀"])
def test_names_and_numbers_have_none(text: str) -> None:
    assert language_of(text) == ""


def test_no_text_fails_and_long_ones_cost_no_more() -> None:
    assert all(isinstance(language_of(text), str) for text in NASTY_TEXTS)
    assert language_of("the cat and the dog " * 1_000_000) == "en"
