"""Capitalized names are found, whether a KB has them or not."""

from __future__ import annotations

import pytest

from kglink.testing import DetectorContract
from kglink_plugins.detectors.capitals import CapitalsDetector


class TestContract(DetectorContract):
    """It holds to the contract of all detectors."""

    plugin = "kglink/capitals"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("We met Alwyn Teague's dog in Penzance.", ["Alwyn Teague", "Penzance"]),
        ("The Royal Cornwall Society met. It left.", ["Royal Cornwall Society"]),
        ("We met Dr. E. Orr of the House of Orr.", ["Dr. E. Orr of the House of Orr"]),
        ("Teague spoke. Then we saw Teague.", ["Teague", "Teague"]),
        ("Pigeons fly. On Monday they rest.", []),
        ("He saw Wenna. The CRPC was late.", ["Wenna", "CRPC"]),
        ("Éloïse Goasdoué et Łódź", ["Éloïse Goasdoué", "Łódź"]),
        ("Z tym łódką Пётр пошёл в парк; το βιβλίο, 「陽炎、抜錨します！」", ["Пётр"]),
        ("Forms: Basic II\nDamaged Form\nThe end", ["Basic II", "Damaged Form"]),
        ("It met SS-511 and SS-590.", ["SS-511", "SS-590"]),
        ("It met SS-511\tand SS-590 & SS-600.", ["SS-511", "SS-590", "SS-600"]),
        ("The minutes of our last meeting were written up by Osric\nVane.", ["Osric\nVane"]),
        ("The minutes of our last meeting were written up by Mr.\nVane.", ["Mr.\nVane"]),
        ("They went by train to St.\n\nThe end", ["St"]),
        ("It was ＮＨＫ.", ["ＮＨＫ"]),
        ("Die Brenna Werke sind da, und es ist gut. Das war Ada.", ["Brenna Werke", "Ada"]),
        ("", []),
    ],
)  # fmt: skip
def test_names(text: str, names: list[str]) -> None:
    found = CapitalsDetector.__new__(CapitalsDetector).detect(text)
    assert [text[one.start : one.end] for one in found] == names
