"""The key of a catalogue is what a person would type; its other codes are names."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.errors import UnknownNameError
from kglink.records import Entity
from kglink.sources import Problems, Source
from kglink_kbs.jsonl import JsonlAdapter, JsonSettings
from kglink_kbs.keys import choose_key, has_check_digit, is_code_name
from kglink_kbs.spellings import is_article_number
from kglink_kbs.tabular import CsvSettings, TabularAdapter

CODES = ("KM-200", "AJ3000", "T-800", "PX 45")
NAMES = ("Kaffeemaschine", "AquaJet 3000", "Toaster", "Bohrer")
EANS = ("4006381333931", "4006381333948", "4006381333955", "4006381333962")
UUIDS = tuple(f"0f8fad5b-d9cb-469f-a165-7086728950{at}e" for at in range(4))

SPELLINGS: Mapping[str, Sequence[str]] = {
    "English": (
        *("SKU", "MPN", "P/N", "Model", "Model no.", "Model number", "Item number", "Item no."),
        *("Item #", "Item code", "Article number", "Article no.", "Part number", "Part no."),
        *("Part #", "Product code", "Manufacturer part number", "Mfr. Part No.", "Reference"),
        *("Catalogue no.", "Cat. No.", "Stock code", "Order code", "Ref.", "Code", "Vendor SKU"),
    ),
    "German": (
        *("Artikelnummer", "Artikel-Nr.", "Art.-Nr.", "Art. Nr", "ArtNr", "Bestellnummer"),
        *("Bestell-Nr.", "Best.-Nr.", "Teilenummer", "Materialnummer", "Mat.-Nr.", "Modell"),
        *("Sachnummer", "Katalog-Nr.", "Hersteller-Artikelnummer", "Herst.-Art.-Nr.", "Referenz"),
        *("Artikelnummer (intern)", "Nr.", "Nummer"),
    ),
    "French": (
        *("Référence", "Réf.", "Référence produit", "Réf. fabricant", "Code article", "Modèle"),
        *("N° article", "N° d'article", "Numéro d'article", "Numéro de pièce", "Code produit"),
    ),
    "Spanish": (
        *("Código", "Código de producto", "Cód. artículo", "Nº de artículo", "Núm. artículo"),
        *("Referencia", "Ref. fabricante", "Número de pieza", "Modelo"),
    ),
    "Italian": (
        *("Codice", "Codice articolo", "Cod. art.", "Codice prodotto", "Riferimento", "Rif."),
        *("N. articolo", "Modello", "Codice produttore"),
    ),
    "Dutch": (
        *("Artikelnr.", "Artikelcode", "Bestelnummer", "Productcode", "Onderdeelnummer"),
        *("Typenummer", "Modelnummer", "Referentie", "Fabrikantcode"),
    ),
}


def read(
    columns: Mapping[str, Sequence[str]], told: Problems | None = None, **settings: str
) -> list[Entity]:
    rows = [columns.keys(), *zip(*columns.values(), strict=True)]
    table = "".join(";".join(row) + "\n" for row in rows).encode()
    adapter = TabularAdapter(CsvSettings.model_validate(settings))
    with Source.from_bytes(table, name="t.csv") as source:
        return [one for one in adapter.read(source, told or Problems()) if isinstance(one, Entity)]


def names_of(entities: Sequence[Entity]) -> list[list[str]]:
    return [[alias.surface for alias in entity.aliases] for entity in entities]


@pytest.mark.parametrize("header", [one for headers in SPELLINGS.values() for one in headers])
def test_what_is_printed_on_the_thing_is_the_key(header: str) -> None:
    beside_ean = {"EAN": EANS, "Name": NAMES, header: CODES}
    first = {header: CODES, "GTIN": EANS, "Name": NAMES}
    among_ids = {"ID": "1234", "UUID": UUIDS, "Barcode": EANS, "Name": NAMES, header: CODES}
    for table in (beside_ean, first, among_ids):
        told = Problems()
        entities = read(table, told)
        assert [(one.key, one.title) for one in entities] == list(zip(CODES, NAMES, strict=True))
        assert all(ean in names for ean, names in zip(EANS, names_of(entities), strict=True))
        assert told.notes["key"].startswith(f"{header} (others: ")
        assert "ID -> not read" in told.notes["key"] or "ID" not in table


def test_the_choice_is_told_and_another_can_be_made() -> None:
    table = {"EAN": EANS, "Artikelnummer": CODES, "Name": NAMES}
    told = Problems()
    assert names_of(read(table, told)) == [
        [code, ean] for code, ean in zip(CODES, EANS, strict=True)
    ]
    assert told.notes == {
        "key": "Artikelnummer (others: EAN -> alias); --set key=EAN chooses another",
        "columns": "EAN is aliases; Artikelnummer is key; Name is title",
    }
    told = Problems()
    entities = read(table, told, key="EAN")
    assert [one.key for one in entities] == [*EANS]
    assert names_of(entities) == [[ean, code] for code, ean in zip(CODES, EANS, strict=True)]
    assert "key" not in told.notes
    assert names_of(read(table, codes="-")) == [[code] for code in CODES[:3]] + [[]]
    assert names_of(read(table, codes="EAN"))[3] == [CODES[3], EANS[3]]
    with pytest.raises(UnknownNameError, match="'GTIN'"):
        read(table, codes="EAN,GTIN")


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        # Not unique, or not filled: no key.
        ({"Model": ("A-1", "A-1", "B-2", "B-3"), "EAN": EANS, "Name": NAMES}, "EAN"),
        ({"SKU": ("A-1", "", "B-2", "B-3"), "EAN": EANS, "Name": NAMES}, "EAN"),
        # A check digit says what a column is, whatever it is called.
        ({"Artikelnummer": EANS, "Bestellnummer": CODES, "Name": NAMES}, "Bestellnummer"),
        ({"SKU": UUIDS, "Item no.": CODES, "Name": NAMES}, "Item no."),
        # A running number is no number of an article.
        ({"Nr.": "1234", "EAN": EANS, "Name": NAMES}, "EAN"),
        (
            {"ID": "1234", "Artikelnummer": ("100200", "100400", "7", "9"), "Name": NAMES},
            "Artikelnummer",
        ),
        # Ids that a person can read stay the key, and a lone EAN is one.
        ({"id": ("G1", "G2", "G3", "G4"), "sku": CODES, "name": NAMES}, "id"),
        ({"id": "1234", "EAN": EANS, "name": NAMES}, "id"),
        ({"EAN": EANS, "Name": NAMES}, "EAN"),
        # A model that is the only name is the title.
        ({"EAN": EANS, "Model": NAMES}, "EAN"),
        ({"id": "4321", "reference": ("see Smith et al. 2004 on it",) * 4, "name": NAMES}, "id"),
    ],
)
def test_the_values_decide_as_well(columns: Mapping[str, Sequence[str]], key: str) -> None:
    assert [one.key for one in read(columns)] == [*columns[key]]


@pytest.mark.parametrize(
    ("code", "is_name"),
    [
        *((code, True) for code in (*CODES[:3], EANS[0], "4711023", "978-3-16-148410-0", "km-200")),
        *((code, False) for code in ("12", "4711", "ABCD", "4.00638E+12", "2024-01-31", "9.90 €")),
        (UUIDS[0], False),
    ],
)
def test_codes_that_people_write_are_names(code: str, is_name: bool) -> None:
    assert is_code_name(code) == is_name


@pytest.mark.parametrize(
    ("code", "right"),
    [
        *((code, True) for code in (*EANS, "96385074", "036000291452", "0-306-40615-2")),
        *((code, True) for code in ("978-3-16-148410-0", "080442957X", "10012345678902")),
        *((code, False) for code in ("4006381333932", "0306406153", "12345", "", "0000000000000")),
    ],
)
def test_check_digits(code: str, right: bool) -> None:
    assert has_check_digit(code) == right


def test_a_header_that_is_made_to_be_slow_is_read_in_no_time() -> None:
    started = time.process_time()
    assert not is_article_number("code" + "delle" * 11)
    wide = {f"Art nr {at} of {'x' * 20} a b c d e f": ["1"] for at in range(20_000)}
    assert not choose_key({**wide, "no " * 300_000: ["2"]}, titled=True).guessed
    assert time.process_time() - started < 20


def read_json(records: Sequence[Mapping[str, object]], **settings: str) -> list[Entity]:
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    with Source.from_bytes(data, name="t.jsonl") as source:
        read = JsonlAdapter(JsonSettings.model_validate(settings)).read(source, Problems())
        return [one for one in read if isinstance(one, Entity)]


def test_json_lines_have_the_same_key() -> None:
    records = [
        {"id": at, "ean": int(ean), "Artikel-Nr.": code, "name": name}
        for at, (ean, code, name) in enumerate(zip(EANS, CODES, NAMES, strict=True), 1)
    ]
    entities = read_json([*records, {"text": "A page.", "entities": []}])
    assert [one.key for one in entities] == [*CODES]
    assert names_of(entities)[0] == ["KM-200", EANS[0]]
    assert [one.key for one in read_json(records, key="id")] == ["1", "2", "3", "4"]
    assert names_of(read_json(records, codes="-"))[0] == ["KM-200"]


def test_a_text_that_names_an_ean_is_linked(kglink: Kglink, tmp_path: Path) -> None:
    rows = zip(EANS, CODES, NAMES, strict=True)
    lines = ["EAN;Artikel-Nr.;Bezeichnung", *(";".join(row) for row in rows)]
    (tmp_path / "k.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    added = kglink("-w", tmp_path, "add-kb", "k", tmp_path / "k.csv")
    told = "key        Artikel-Nr. (others: EAN -> alias); --set key=EAN chooses another"
    assert told in added.err
    text = f"Die KM-200 hat die Nummer {EANS[0]}."
    (linked,) = json.loads(kglink("-w", tmp_path, "link", "-", "--json", stdin=text).out)
    found = [(one["text"], one["key"]) for one in linked["entities"]]
    assert found == [("KM-200", "KM-200"), (EANS[0], "KM-200")]
