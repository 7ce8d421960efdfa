"""Abbreviations by the rule of Schwartz and Hearst, by hand."""

from __future__ import annotations

import pytest

from kglink.text.abbreviations import long_form_of, long_forms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Patients with cystic fibrosis (CF) cough.", {"CF": "cystic fibrosis"}),
        ("CF (cystic fibrosis) is inherited.", {"CF": "cystic fibrosis"}),
        ("A heat shock factor (HSF) binds.", {"HSF": "heat shock factor"}),
        ("carcinoma of the prostate (CaP)", {"CaP": "carcinoma of the prostate"}),
        ("maple syrup urine disease (MSUD), a disorder", {"MSUD": "maple syrup urine disease"}),
        ("ataxia-telangiectasia (A-T) is rare", {"A-T": "ataxia-telangiectasia"}),
        ("glucose-6-phosphate dehydrogenase (G6PD)", {"G6PD": "glucose-6-phosphate dehydrogenase"}),
        ("a gene of myotonic dystrophy (DM)", {"DM": "myotonic dystrophy"}),
        ("acute hepatitis (AH; n = 7)", {"AH": "acute hepatitis"}),
        (
            "adult onset globoid cell leukodystrophy (Krabbe disease; AO-GLD)",
            {"AO-GLD": "adult onset globoid cell leukodystrophy"},
        ),
        ("deaths from excited delirium (EDDs)", {"EDD": "excited delirium"}),
        ("CEPH (Centre dEtude Polymorphisme Humain, Paris)",
         {"CEPH": "Centre dEtude Polymorphisme Humain, Paris"}),
        ("a heat shock\r\nfactor\r\n(HSF) binds", {"HSF": "heat shock\r\nfactor"}),
        ("there the\r\nHSF (heat shock factor) binds", {"HSF": "heat shock factor"}),
        ("a heat shock factor\r\n\r\n(HSF) binds", {}),
        ("two groups (see Table 2) of rats (n = 12)", {}),
        ("It rained. Then (CF) came cystic fibrosis.", {}),
        ("(CF)", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_definitions(text: str, found: dict[str, str]) -> None:
    assert long_forms(text) == found


def test_the_first_definition_counts_and_plurals_are_known() -> None:
    text = "vesicoureteral reflux (VUR) and again vascular upper reflux (VUR); VURs"
    assert long_form_of("VUR", text) == long_form_of("VURs", text) == "vesicoureteral reflux"
    assert long_form_of("reflux", text) == ""
    assert long_form_of("a surface that is too long", text) == ""


def test_hostile_texts_end_soon() -> None:
    for text in ("(" * 50_000, "a (b) " * 20_000, "İ" * 9 + " (İİ)", "A" * 100_000 + " (AA)"):
        long_forms(text)
