"""`kglink resolve` of workbooks and Parquet files: what it does not add stays as it is."""

from __future__ import annotations

import datetime
import io
import re
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Kglink

from kglink.sources import Source
from kglink_cli.sheet_xml import with_cells
from kglink_cli.table_files import opened_table
from resolve_support import ADDED

pytest_plugins = ["resolve_fixtures"]


@pytest.fixture(autouse=True)
def _in_birds(birds_to_resolve: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(birds_to_resolve))


# ------------------------------------------------------------------------------------- XLSX
def workbook(*rows: list[Any]) -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet
    for row in rows:
        sheet.append(row)
    return book


def test_a_workbook_keeps_styles_formulas_and_sheets(kglink: Kglink, tmp_path: Path) -> None:
    day = datetime.datetime(2020, 1, 2)
    book = workbook(
        ["bird", "x"],
        ["Heron", "=1+1"],
        [None, 2],
        [day, 3.5],
        ["Bell bird", True],
        ["=1+1", ""],
    )
    sheet = book.worksheets[0]
    sheet["A1"].font = openpyxl.styles.Font(bold=True)
    book.create_sheet("other").append(["kept"])
    book.save(tmp_path / "t.xlsx")
    kglink("resolve", "--column", "bird", tmp_path / "t.xlsx", "-o", tmp_path / "o.xlsx")
    done = openpyxl.load_workbook(tmp_path / "o.xlsx")
    header, heron, empty, date, bell, *_ = done.worksheets[0].iter_rows(values_only=True)
    assert header == ("bird", "x", *(f"bird_{name}" for name in ADDED))
    assert heron == ("Heron", "=1+1", "match", "birds:h", "Heron", 0.93, None, None)
    assert empty == (None, 2, *[None] * 6)
    assert date[:3] == (day, 3.5, "new")
    assert bell[:5] == ("Bell bird", True, "match", "birds:b", "Bell\u2401bird")
    assert done.worksheets[0]["A1"].font.b
    assert done.sheetnames == ["Sheet", "other"]


def test_a_table_behind_a_cover_and_below_a_heading(kglink: Kglink, tmp_path: Path) -> None:
    book = workbook(["Birds of 2026"])
    sheet = book.create_sheet("seen")
    for row in (["Seen at the pond"], [], ["no", "bird"], [1, "Heron"], [2, None], [3, "qwxz"]):
        sheet.append(row)
    book.save(tmp_path / "t.xlsx")
    ran = kglink("resolve", "--column", "bird", tmp_path / "t.xlsx", "-o", tmp_path / "o.xlsx")
    assert "2 of 3 rows" in ran.err
    done = openpyxl.load_workbook(tmp_path / "o.xlsx")
    assert list(done["Sheet"].iter_rows(values_only=True)) == [("Birds of 2026",)]
    heading, blank, header, heron, empty, new = done["seen"].iter_rows(values_only=True)
    assert heading == ("Seen at the pond", *[None] * 7)
    assert not any(blank + empty[1:])
    assert header == ("no", "bird", *(f"bird_{name}" for name in ADDED))
    assert heron[:4] == (1, "Heron", "match", "birds:h")
    assert new[:3] == (3, "qwxz", "new")


def test_all_else_of_a_workbook_stays_byte_for_byte(kglink: Kglink, tmp_path: Path) -> None:
    space = 'xmlns:x="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    name = '<x:c r="{}{}" t="inlineStr"><x:is><x:t>{}</x:t></x:is></x:c>'
    rows = (
        '<?xml version="1.0"?>\n' + f"<x:worksheet {space}>\n <x:sheetData>",
        f'<x:row r="1" ht="30">{name.format("A", 1, "bird")}</x:row >',
        '<x:row r="2"/>',
        f'<x:row r="5">{name.format("A", 5, "Heron")}<x:c r="C5" s="0"/></x:row>',
        "<!-- kept --><x:row><x:c/></x:row></x:sheetData><x:pageMargins left='1' right='1' "
        "top='1' bottom='1' header='1' footer='1'/></x:worksheet>",
    )
    table = xlsx_with("".join(rows), tmp_path)
    kglink("resolve", "--column", "bird", table, "-o", tmp_path / "o.xlsx")
    with zipfile.ZipFile(table) as old, zipfile.ZipFile(tmp_path / "o.xlsx") as new:
        assert new.namelist() == old.namelist()
        for part in old.namelist():
            if not part.startswith("xl/worksheets/"):
                assert new.read(part) == old.read(part)
        (sheet,) = (new.read(one).decode() for one in new.namelist() if "/worksheets/" in one)
    added = re.findall(r'<x:c r="[D-I]\d"(?: t="inlineStr")?>.*?</x:c>', sheet)
    assert [re.search(r'r="(\w+)"', one)[1] for one in added] == [  # type: ignore[index]  # matched
        *("D1", "E1", "F1", "G1", "H1", "I1", "D5", "E5", "F5", "G5")
    ]
    for one in added:
        sheet = sheet.replace(one, "", 1)
    assert sheet == "".join(rows)
    done = openpyxl.load_workbook(tmp_path / "o.xlsx").worksheets[0]
    assert done["D5"].value == "match"


@pytest.mark.slow
def test_a_reader_that_trusts_the_size_of_a_sheet_sees_the_answers(
    kglink: Kglink, tmp_path: Path
) -> None:
    book = openpyxl.Workbook()
    for row in (["bird", "place"], ["Heron", 1]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    made = tmp_path / "b.xlsx"
    kglink("resolve", "--column", "bird", str(tmp_path / "a.xlsx"), "-o", str(made))
    read = openpyxl.load_workbook(made, read_only=True)
    head, first = read.worksheets[0].iter_rows(values_only=True)
    read.close()
    assert list(head) == ["bird", "place", *(f"bird_{name}" for name in ADDED)]
    assert first[3] == "birds:h"


def test_a_library_does_not_warn_of_parts_that_stay(kglink: Kglink, tmp_path: Path) -> None:
    uri = "{CCE6A557-97BC-4b89-ADB6-D9C93CAAB3DF}"  # rules of cells
    rows = f'<sheetData><row r="1">{CELL.format(1)}</row></sheetData>'
    table = xlsx_with(f'{SHEET}{rows}<extLst><ext uri="{uri}"/></extLst></worksheet>', tmp_path)
    out = tmp_path / "o.xlsx"
    assert "Warning" not in kglink("resolve", "--column", "bird", str(table), "-o", str(out)).err
    with zipfile.ZipFile(out) as book:
        assert uri.encode() in book.read("xl/worksheets/sheet1.xml")


@pytest.mark.slow
def test_a_large_workbook_is_never_whole_in_memory(tmp_path: Path) -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(["bird", "note"])
    for number in range(20_000):
        sheet.append(["Heron", number])
    book.save(tmp_path / "t.xlsx")
    with Source.open_path(tmp_path / "t.xlsx") as source, (tmp_path / "o.xlsx").open("wb") as out:
        table = opened_table(source, ["bird"])
        tracemalloc.start()
        table.write(out, [0], ["bird_id"], lambda rows: ([str(row[0])] for row in rows))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 8 << 20  # openpyxl with all cells takes 20 MB
    done = openpyxl.load_workbook(tmp_path / "o.xlsx", read_only=True)
    assert [row[2] for row in done.worksheets[0].iter_rows(values_only=True)][-1] == "Heron"
    done.close()
    assert table.rows == 20_000


def xlsx_with(sheet: str, folder: Path) -> Path:
    """A workbook whose only sheet is this XML."""
    path, made = folder / "t.xlsx", folder / "made.xlsx"
    workbook(["bird"], ["Heron"]).save(made)
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            is_sheet = name.startswith("xl/worksheets/")
            new.writestr(name, sheet if is_sheet else old.read(name))
    made.unlink()
    return path


SHEET = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
CELL = '<c r="A{0}" t="inlineStr"><is><t>bird</t></is></c>'


@pytest.mark.parametrize(
    ("sheet", "said"),
    [
        (SHEET + "<sheetData/>" + " " * (300 << 20) + "</worksheet>", "unpacks to 300 MB"),
        (
            SHEET + f'<sheetData><row r="1">{CELL.format(1)}</row>'
            f'<row r="99999999999">{CELL.format(99999999999)}</row></sheetData></worksheet>',
            "has rows that no sheet has",
        ),
        (SHEET + "<sheetData>", "cannot be read as XLSX"),
        (
            '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb">'
            + "".join(
                f'<!ENTITY {new} "{f"&{old};" * 10}">'
                for old, new in zip("bcdefghij", "cdefghijk", strict=True)
            )
            + f"]>{SHEET}<sheetData><row><c><v>&k;</v></c></row></sheetData></worksheet>",
            "cannot be read as XLSX",
        ),
    ],
    ids=["bomb", "rows", "cut", "entities"],
)
@pytest.mark.timeout(120)
def test_a_hostile_workbook_is_refused(
    kglink: Kglink, tmp_path: Path, sheet: str, said: str
) -> None:
    table = xlsx_with(sheet, tmp_path)
    ran = kglink("resolve", "--column", "bird", table, "-o", tmp_path / "o.xlsx", code=1)
    assert said in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["t.xlsx"]


def test_a_damaged_part_of_a_workbook_is_found_at_once(kglink: Kglink, tmp_path: Path) -> None:
    workbook(["bird"], ["Heron"]).save(tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "a", zipfile.ZIP_STORED) as archive:
        archive.writestr("xl/media/image1.png", b"a picture of a heron")
    raw = (tmp_path / "t.xlsx").read_bytes().replace(b"a picture of", b"a pictuRe of")
    (tmp_path / "t.xlsx").write_bytes(raw)
    table, out = tmp_path / "t.xlsx", tmp_path / "o.xlsx"
    ran = kglink("resolve", "--column", "bird", table, "-o", out, code=1)
    assert "is damaged in its part 'xl/media/image1.png'" in ran.err
    assert not out.exists()


def test_a_cell_holds_nothing_that_xml_does_not() -> None:
    rows = b'<worksheet><sheetData><row r="1"><c r="A1"/></row></sheetData></worksheet>'
    made = b"".join(with_cells(io.BytesIO(rows), "t.xlsx", 2, lambda row: ["a\uffffb\ufffe"]))
    assert ">a\ufffdb\ufffd<".encode() in made


def test_a_zip_archive_is_no_workbook(kglink: Kglink, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a.csv", "bird\nHeron\n")
    ran = kglink("resolve", "--column", "bird", tmp_path / "t.zip", code=1)
    assert "is a zip archive, and no XLSX file" in ran.err


# ---------------------------------------------------------------------------------- Parquet
def test_a_parquet_file_keeps_its_types(kglink: Kglink, tmp_path: Path) -> None:
    table = pa.table(
        {
            "bird": pa.array(["Heron", None, "qwxz"]).dictionary_encode(),
            "n": pa.array([1, 2, None], pa.int32()),
            "list": pa.array([[1], [], None]),
        },
        metadata={"kept": "yes"},
    )
    pq.write_table(table, tmp_path / "t.parquet", compression="zstd", row_group_size=2)
    out = tmp_path / "o.parquet"
    ran = kglink("resolve", "--column", "bird", "--context", "n", tmp_path / "t.parquet", "-o", out)
    done = pq.read_table(out)
    assert done.select(table.column_names).equals(table)
    assert done.schema.metadata[b"kept"] == b"yes"
    assert done["bird_status"].to_pylist() == ["match", None, "new"]
    assert done["bird_id"].to_pylist() == ["birds:h", None, None]
    assert done["bird_probability"].type == pa.float64()
    assert "2 of 3 rows: 1 matched, 0 ambiguous, 1 new, 1 empty" in ran.err
    assert pq.ParquetFile(out).metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_column_of_lists_is_refused(kglink: Kglink, tmp_path: Path) -> None:
    table = pa.table({"bird": [["Heron"]], "of": [{"name": "Heron"}]})
    pq.write_table(table, tmp_path / "t.parquet")
    for column, kind in (("bird", "list<"), ("of", "struct<")):
        ran = kglink("resolve", "--column", column, tmp_path / "t.parquet", code=2)
        assert f"the column {column!r} of t.parquet holds values of {kind}" in ran.err


@pytest.mark.slow
def test_a_parquet_file_goes_through_pipes(tmp_path: Path, birds_to_resolve: Path) -> None:
    sunk = io.BytesIO()
    pq.write_table(pa.table({"bird": ["Heron"]}), sunk)
    out = tmp_path / "o.parquet"
    ran = subprocess.run(
        [sys.executable, "-m", "kglink_cli", "resolve", "-", "--column", "bird", "-o", out],
        input=sunk.getvalue(),
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert pq.read_table(out).column("bird_id").to_pylist() == ["birds:h"]


@pytest.mark.parametrize("raw", [b"PAR1", b"PAR1" + b"x" * 100 + b"PAR1"])
def test_a_damaged_parquet_file_is_refused(kglink: Kglink, tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "t.parquet").write_bytes(raw)
    ran = kglink("resolve", "--column", "bird", tmp_path / "t.parquet", code=1)
    assert "cannot be read as Parquet" in ran.err


@pytest.mark.parametrize(("library", "name"), [("openpyxl", "t.xlsx"), ("pyarrow", "t.parquet")])
def test_a_missing_library_is_named(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, name: str
) -> None:
    workbook(["bird"]).save(tmp_path / "t.xlsx")
    pq.write_table(pa.table({"bird": ["Heron"]}), tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setitem(sys.modules, f"{library}.parquet", None)
    ran = kglink("resolve", "--column", "bird", tmp_path / name, code=2)
    assert f"need {library}" in ran.err
    assert "pip install 'kglink[tables]'" in ran.err
