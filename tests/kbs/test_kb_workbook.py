"""Entities of XLSX workbooks and Parquet files: what CSV and JSON with the same cells give."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import sys
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Kglink

from kb_checks import head_of
from kglink.errors import RecordError, SourceError, UnknownNameError
from kglink.plugins import load_registry
from kglink.records import Document, Entity, Record
from kglink.sources import Problems, Source, SourceLimits, tables
from kglink.testing import KBAdapterContract
from kglink_kbs import binary_tables
from kglink_kbs.archives import opened_files
from kglink_kbs.jsonl import JsonlAdapter, JsonSettings
from kglink_kbs.tabular import CsvSettings, TabularAdapter

HEADER = ["Article no.", "Name", "Description", "Synonyms", "Price", "Since"]
PRODUCTS: list[list[Any]] = [
    [
        1001,
        "AquaJet 200",
        "For\ndecks.",
        "AJ200|Aqua Jet",
        99.5,
        datetime.date(2020, 1, 2),
    ],
    [1002.0, "Kestrel", None, None, 10, datetime.datetime(2021, 3, 4, 5, 6)],
    ["X-3", "Steinfix", "Löst Steine.", "stone cleaner", True, None],
]


def book_of(*rows: list[Any], **sheets: list[list[Any]]) -> bytes:
    """A workbook with these rows in its first sheet."""
    book = openpyxl.Workbook()
    for name, of_sheet in {"Products": rows, **sheets}.items():
        sheet = book.create_sheet(name)
        for row in of_sheet:
            sheet.append(row)
    del book["Sheet"]
    return saved(book)


def saved(book: openpyxl.Workbook) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def read_book(raw: bytes, problems: Problems | None = None, **settings: str) -> list[Record]:
    adapter = binary_tables.WorkbookAdapter(binary_tables.WorkbookSettings.model_validate(settings))
    with Source.from_bytes(raw, name="t.xlsx") as source:
        return list(adapter.read(source, problems or Problems()))


def test_a_sheet_gives_what_it_gives_as_csv() -> None:
    shown = [
        ["1001", "AquaJet 200", "For\ndecks.", "AJ200|Aqua Jet", "99.5", "2020-01-02"],
        ["1002", "Kestrel", "", "", "10", "2021-03-04 05:06:00"],
        ["X-3", "Steinfix", "Löst Steine.", "stone cleaner", "TRUE", ""],
    ]
    out = io.StringIO()
    csv.writer(out).writerows([HEADER, *shown])
    with Source.from_bytes(out.getvalue().encode(), name="t.csv") as source:
        wanted = list(TabularAdapter(CsvSettings()).read(source, Problems()))
    assert read_book(book_of(HEADER, *PRODUCTS)) == wanted
    found = read_book(book_of(HEADER, *PRODUCTS), description="Since")
    assert [one.description for one in found if isinstance(one, Entity)] == [
        *("2020-01-02", "2021-03-04 05:06:00", "")
    ]


def test_blank_rows_and_cells_beside_the_table_are_passed_over() -> None:
    rows = [[], ["id", "name"], [], ["a", "Ash", "", "a note"], ["b"], ["c", "Elm"]]
    problems = Problems("skip")
    found = read_book(book_of(*rows), problems)
    assert [one.key for one in found if isinstance(one, Entity)] == ["a", "c"]
    assert problems.examples[0].startswith("t.xlsx, line 5: an empty title")


def test_numbers_with_leading_zeros_keep_them_and_errors_are_empty() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet
    for row in (["id", "name", "description"], [42, "Ash", "#N/A"], [7, "Elm", "A tree."]):
        sheet.append(row)
    for cell in ("A2", "A3"):
        sheet[cell].number_format = "00000"
    sheet["C2"].data_type = "e"
    found = read_book(saved(book))
    assert found == [Entity("00042", "Ash"), Entity("00007", "Elm", description="A tree.")]


def test_a_sheet_is_chosen_by_its_name() -> None:
    raw = book_of(["hello"], Trees=[["id", "name"], ["a", "Ash"]], Empty=[])
    problems = Problems()
    assert read_book(raw, problems, sheet="Trees") == [Entity("a", "Ash")]
    assert problems.notes["sheet"] == "Trees; not read: Products, Empty (--set sheet=NAME)"
    with pytest.raises(UnknownNameError, match=r"unknown sheet of t\.xlsx 'trees'"):
        read_book(raw, sheet="trees")
    with pytest.raises(SourceError, match="the sheet 'Empty'"):
        read_book(raw, sheet="Empty")
    with pytest.raises(SourceError, match="no columns for the key and the title"):
        read_book(raw)
    with pytest.raises(SourceError, match="holds no record"):
        read_book(book_of(["id", "name"]))


@pytest.mark.parametrize(("formula", "said"), [('="a"&"b"', True), ("plain", False)])
def test_formulas_without_a_value_are_told_once(formula: str, said: bool) -> None:
    told: list[str] = []
    problems = Problems(on_note=lambda label, text: told.append(label))
    raw = book_of(["id", "title", "description"], ["1", "One", formula], ["2", "Two", formula])
    assert len(read_book(raw, problems)) == 2
    assert told.count("formulas") == said


def test_a_formula_that_gives_an_empty_text_has_been_computed() -> None:
    cell = b'<c r="A1" t="str"><f>""</f><v></v></c>'
    assert not tables._NOT_COMPUTED.search(cell)
    assert tables._NOT_COMPUTED.search(cell.replace(b' t="str"', b""))
    assert tables._NOT_COMPUTED.search(b'<c r="A2"><f t="shared" si="0"/></c><c r="B2"/>')
    assert not tables._NOT_COMPUTED.search(b'<c r="A2"><f t="shared" si="0"/><v>1</v></c>')


def test_a_header_below_a_heading_is_found_and_told() -> None:
    problems = Problems()
    raw = book_of(["Articles of 2026"], [], ["Group", "one"], HEADER, *PRODUCTS)
    assert read_book(raw, problems) == read_book(book_of(HEADER, *PRODUCTS))
    assert problems.notes["header"] == "t.xlsx, line 4: what stands above it is not read"
    raw = book_of(["Trees"], ["code", "what"], ["a", "Ash"])
    with pytest.raises(SourceError, match="no columns for the key and the title"):
        read_book(raw)
    assert read_book(raw, key="code", title="what") == [Entity("a", "Ash")]


def test_columns_of_one_name_matter_where_they_are_read() -> None:
    problems = Problems()
    rows: list[list[Any]] = [["id", "name", "Price", "Price"], ["a", "Ash", 1, 2]]
    assert read_book(book_of(*rows), problems) == [Entity("a", "Ash")]
    assert problems.notes["twice"] == "columns of one name are not read: Price"
    with pytest.raises(SourceError, match="2 columns named 'Price'"):
        read_book(book_of(*rows), description="Price")


def sheet_of(xml: str) -> bytes:
    """A workbook whose only sheet is this XML."""
    out = io.BytesIO()
    made = zipfile.ZipFile(io.BytesIO(book_of(["id", "name"], ["a", "Ash"])))
    with made, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in made.namelist():
            new.writestr(name, xml if name.startswith("xl/worksheets/") else made.read(name))
    return out.getvalue()


SHEET = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
ROW = '<row r="{0}"><c r="A{0}" t="inlineStr"><is><t>id</t></is></c></row>'


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"PK\x03\x04 and no more", "cannot be read as XLSX"),
        (book_of(["id", "name"])[:-200], "cannot be read as XLSX"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), "before 2007, or one with a password"),
        (b"id,name\na,Ash\n", "cannot be read as XLSX"),
        (sheet_of(SHEET + "<sheetData>"), "cannot be read as XLSX"),
        (
            sheet_of(SHEET + f"<sheetData>{ROW.format(10**11)}</sheetData></worksheet>"),
            "no sheet has",
        ),
        (
            sheet_of(
                '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb">'
                + "".join(
                    f'<!ENTITY {new} "{f"&{old};" * 10}">'
                    for old, new in zip("bcdefghij", "cdefghijk", strict=True)
                )
                + f"]>{SHEET}<sheetData><row><c><v>&k;</v></c></row></sheetData></worksheet>"
            ),
            "cannot be read as XLSX",
        ),
    ],
    ids=["beginning", "cut", "password", "text", "sheet cut", "rows", "entities"],
)
def test_a_hostile_workbook_is_refused(raw: bytes, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        read_book(raw)


def test_what_a_workbook_unpacks_to_is_bounded() -> None:
    raw = sheet_of(SHEET + "<sheetData/>" + " " * 2**22 + "</worksheet>")
    adapter = binary_tables.WorkbookAdapter(binary_tables.WorkbookSettings())
    limits = SourceLimits(max_expansion=10, free_expansion=2**16)
    with (
        Source.from_bytes(raw, name="t.xlsx", limits=limits) as source,
        pytest.raises(SourceError, match="grows to more than 10 times its size"),
    ):
        list(adapter.read(source, Problems()))


# ---------------------------------------------------------------------------------- Parquet
def parquet_of(rows: list[dict[str, Any]], **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out, **options)
    return out.getvalue()


def read_parquet(raw: bytes) -> list[Record]:
    with Source.from_bytes(raw, name="t.parquet") as source:
        adapter = binary_tables.ParquetAdapter(binary_tables.ParquetSettings())
        return list(adapter.read(source, Problems()))


def test_rows_give_what_they_give_as_json() -> None:
    rows: list[dict[str, Any]] = [
        {"id": at, "title": f"Ash {at}", "aliases": ["Esche", f"A{at}"] * (at % 2), "type": None}
        | {"popularity": 1.5 * at, "parents": [], "since": "2020-01-02"}
        for at in range(1, 1_500)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    with Source.from_bytes(lines.encode(), name="t.jsonl") as source:
        wanted = list(JsonlAdapter(JsonSettings()).read(source, Problems()))
    assert len(wanted) == len(rows)
    assert read_parquet(parquet_of(rows, row_group_size=700, compression="zstd")) == wanted


def test_plain_cells_give_what_they_give_as_csv() -> None:
    rows = [{"sku": "a", "name": "Ash", "synonyms": "Esche|Fraxinus", "price": 1.5}]
    rows += [{"sku": "b", "name": "Elm", "synonyms": None, "price": 2}]
    with Source.from_bytes(
        b"sku,name,synonyms,price\na,Ash,Esche|Fraxinus,1.5\nb,Elm,,2\n", name="t.csv"
    ) as source:
        wanted = list(TabularAdapter(CsvSettings()).read(source, Problems()))
    assert read_parquet(parquet_of(rows)) == wanted


def test_cells_that_json_does_not_know_are_texts() -> None:
    row = {
        "id": Decimal("10.50"),
        "title": "Ash",
        "description": datetime.date(2020, 1, 2),
        "aliases": [b"Esche"],
        "popularity": float("nan"),
    }
    (found,) = read_parquet(parquet_of([row]))
    assert isinstance(found, Entity)
    assert (found.key, found.description, found.popularity) == ("10.50", "2020-01-02", 0.0)
    assert [alias.surface for alias in found.aliases] == ["Esche"]


def test_times_of_any_year_need_no_other_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    times = pa.array([1, 2**62], pa.timestamp("ns"))
    days = pa.array([10**7, 0], pa.date32())  # 29348-12-22
    table = pa.table({"id": ["a", "b"], "name": ["Ash", "Elm"], "t": times, "type": days})
    out = io.BytesIO()
    pq.write_table(table, out)
    assert read_parquet(out.getvalue()) == [
        Entity("a", "Ash", type="29349-01-26"), Entity("b", "Elm", type="1970-01-01")
    ]  # fmt: skip


def test_parquet_may_have_two_columns_of_one_name() -> None:
    columns = [pa.array(["a"]), pa.array(["Ash"]), pa.array(["x"]), pa.array(["y"])]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, ["id", "name", "note", "note"]), out)
    assert read_parquet(out.getvalue()) == [Entity("a", "Ash")]


def test_annotated_texts_are_documents() -> None:
    mention = {"start": 4, "end": 9, "kb": "birds", "key": "h"}
    (found,) = read_parquet(
        parquet_of([{"id": "d", "text": "The heron fishes.", "mentions": [mention]}])
    )
    assert isinstance(found, Document)
    assert [(one.surface, one.gold and str(one.gold[0])) for one in found.mentions] == [
        ("heron", "birds:h")
    ]


def test_a_list_that_is_not_read_changes_nothing() -> None:
    rows = [{"sku": "a", "name": "Ash", "synonyms": "Esche|Fraxinus", "sizes": [1, 2]}]
    assert read_parquet(parquet_of(rows)) == read_parquet(
        parquet_of([{name: cell for name, cell in rows[0].items() if name != "sizes"}])
    )


def test_a_table_without_rows_is_said_to_have_none() -> None:
    raw = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([], pa.string()), "title": pa.array([])}), raw)
    with pytest.raises(SourceError, match="holds no record"):
        read_parquet(raw.getvalue())


def test_a_bad_row_is_named_by_its_number() -> None:
    raw = parquet_of([{"id": "a", "title": "Ash"}, {"id": "", "title": "Elm"}])
    with pytest.raises(RecordError, match=r"t\.parquet, line 2: an empty id"):
        read_parquet(raw)


@pytest.mark.parametrize("raw", [b"PAR1", b"PAR1" + b"x" * 100 + b"PAR1"])
def test_a_damaged_parquet_file_is_refused(raw: bytes) -> None:
    with pytest.raises(SourceError, match="cannot be read as Parquet"):
        read_parquet(raw)


# ------------------------------------------------------------------------------------- both
def test_they_are_known_by_their_content() -> None:
    registry = load_registry()
    for raw, name in ((book_of(["id", "name"]), "xlsx"), (parquet_of([{"id": "a"}]), "parquet")):
        with Source.from_bytes(raw, name="-") as source:
            assert registry.guess_kb(source.head).name == f"kglink/{name}"


def test_a_word_file_is_no_workbook() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("word/document.xml", "<w/>")
    assert binary_tables.sniff_workbook(head_of(out.getvalue(), "t.docx")) == 0
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("xl/workbook.bin", b"")
    assert binary_tables.sniff_workbook(head_of(out.getvalue(), "t.xlsb")) == 0
    with pytest.raises(SourceError, match=r"t\.xlsb is a workbook"):
        list(Source.from_bytes(out.getvalue(), name="t.xlsb").lines(Problems()))


def test_a_workbook_of_a_chart_alone_has_no_table() -> None:
    book = openpyxl.Workbook()
    book.create_chartsheet("Chart").add_chart(openpyxl.chart.BarChart())
    del book["Sheet"]
    with pytest.raises(SourceError, match="has no sheet with cells"):
        read_book(saved(book))


def test_what_is_packed_and_no_archive_is_not_unpacked() -> None:
    packed = gzip.compress(bytes(2**20))
    with (
        Source.from_bytes(packed, name="a.docx.gz") as source,
        pytest.raises(SourceError, match="neither a zip archive nor a folder"),
        opened_files(source),
    ):
        pass
    assert source.bytes_read < 2**20


def test_a_user_adds_a_workbook(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.xlsx").write_bytes(book_of(HEADER, *PRODUCTS, Notes=[["hello"]]))
    ran = kglink("add-kb", "products", tmp_path / "t.xlsx")
    assert "kglink/xlsx (guessed from the content)" in ran.err
    assert "products +3 ~0 -0 =0" in ran.out
    assert "AquaJet 200" in kglink("show", "products:1001").out
    ran = kglink("add-kb", "products", tmp_path / "t.xlsx")
    assert "products +0 ~0 -0 =3" in ran.out


def test_an_update_with_other_ids_is_asked_about(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for prefix, code in (("A", 0), ("B", 1)):
        rows = [[f"{prefix}{at}", f"Thing {at}"] for at in range(20)]
        (tmp_path / "t.xlsx").write_bytes(book_of(["id", "name"], *rows))
        ran = kglink("add-kb", "things", tmp_path / "t.xlsx", code=code)
    assert "would remove 20 of the 20 entities of 'things': it has none of their ids" in ran.err
    assert "Are ids read from another column or sheet now?" in ran.err


class TestWorkbookContract(KBAdapterContract):
    plugin = "kglink/xlsx"
    source_name = "t.xlsx"
    source_text = book_of(["id", "name"], ["a", "Ash"], ["b", "Elm"])
    expected = (Entity("a", "Ash"), Entity("b", "Elm"))
    broken = (
        b"PK\x03\x04",
        b"id,name\na,Ash\n",
        source_text[:-100],
        book_of(["id", "name"], ["", "Ash"]),
        book_of(["id", "name"]),
    )


class TestParquetContract(KBAdapterContract):
    plugin = "kglink/parquet"
    source_name = "t.parquet"
    source_text = parquet_of([{"id": "a", "title": "Ash"}, {"id": "b", "title": "Elm"}])
    expected = (Entity("a", "Ash"), Entity("b", "Elm"))
    broken = (b"PAR1", source_text[:-10], parquet_of([{"id": "", "title": "Ash"}]))
