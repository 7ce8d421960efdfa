"""`kglink resolve`: names, and columns of tables whose other bytes stay as they are."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.errors import UsageError
from kglink.linking.scoring import PLAIN_SCORING, write_scoring
from kglink.sources.compression import zstd
from kglink.workspace import Workspace
from kglink.workspace import resolve as resolving
from kglink.workspace.resolve import Cells, Resolver, Row
from resolve_support import RIGHT, added, resolved

pytest_plugins = ["resolve_fixtures"]


@pytest.fixture(autouse=True)
def _in_birds(birds_to_resolve: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(birds_to_resolve))


# ------------------------------------------------------------------------------------- names
def test_one_table_and_one_column_are_resolved_at_a_time(kglink: Kglink) -> None:
    said = kglink("resolve", "--column", "a", "--column", "b", "t.csv", code=2).err
    assert "one column, and 2 were named" in said
    both = kglink("resolve", "Heron", "--kb", "birds", "--kb", "fish", code=2).err
    assert "'fish'" in both


def test_names_are_answered_in_their_order(kglink: Kglink) -> None:
    ran = kglink("resolve", "Heron", "osprey", "qwxz")
    header, heron, osprey, new = (line.split("\t") for line in ran.out.splitlines())
    assert header == ["name", "status", "probability", "entity", "title", "why", "also"]
    assert heron == ["Heron", "match", "0.93", "birds:h", "Heron", "its title", ""]
    assert osprey[1:4] == ["match", "0.90", "birds:o"]
    assert new[:2] == ["qwxz", "new"]


def test_the_line_by_which_excel_says_the_delimiter_stays(kglink: Kglink, tmp_path: Path) -> None:
    table = tmp_path / "seen.csv"
    table.write_bytes(b"sep=;\r\nday;bird\r\n1;Heron\r\n")
    kglink("resolve", "--column", "bird", table, "-o", tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_bytes().split(b"\r\n")
    assert lines[0] == b"sep=;"
    assert lines[1].startswith(b"day;bird;bird_status;bird_id;")
    assert lines[2].startswith(b"1;Heron;match;birds:h;")


@pytest.mark.parametrize("begin", [b"", b"sep=;\r\n"])
def test_a_heading_stays_above_the_header(kglink: Kglink, tmp_path: Path, begin: bytes) -> None:
    table = tmp_path / "seen.csv"
    heading = b'Birds of 2026; "so far\r\n;;\r\n'
    table.write_bytes(begin + heading + b"day;bird;x\r\n1;Heron;\r\n2;;\r\n")
    kglink("resolve", "--column", "bird", table, "-o", tmp_path / "out.csv")
    out = (tmp_path / "out.csv").read_bytes()
    assert out.startswith(begin + heading + b"day;bird;x;bird_status;")
    assert out.removeprefix(begin + heading).split(b"\r\n")[1].startswith(b"1;Heron;;match;")


def test_ids_that_are_no_names_are_known(kglink: Kglink, tmp_path: Path) -> None:
    rows = "id,name\n10075,Jet washer\n10076,Pond pump\n42,Bird bath\n"
    for kb in ("shop", "store"):
        (tmp_path / f"{kb}.csv").write_text(rows)
        kglink("add-kb", kb, tmp_path / f"{kb}.csv")
    asked = ("10075", "store:10076", "10077", "12 herons", "store:42")
    answers = json.loads(kglink("resolve", *asked, "--kb", "shop,store", "--json").out)
    assert [one["status"] for one in answers] == ["ambiguous", "match", "new", "new", "match"]
    assert (answers[1]["id"], answers[1]["why"]) == ("store:10076", ["its id"])
    only, few = json.loads(kglink("resolve", "10075", "42", "--kb", "shop", "--json").out)
    assert (only["id"], only["title"]) == ("shop:10075", "Jet washer")
    assert few["status"] == "ambiguous"  # it may count something


def test_a_lone_column_below_a_heading(kglink: Kglink, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Birds of 2026\n\nbird\nHeron\n")
    ran = kglink("resolve", "--column", "bird", tmp_path / "t.csv")
    assert ran.out.startswith("Birds of 2026\n\nbird,bird_status,")
    assert "1 of 1 rows: 1 matched" in ran.err


def test_a_heading_above_a_table_without_the_column(kglink: Kglink, tmp_path: Path) -> None:
    table = tmp_path / "seen.csv"
    table.write_bytes(b"Birds\nday,bird\n1,Heron\n")
    ran = kglink("resolve", "--column", "brid", table, code=2)
    assert "unknown column of seen.csv 'brid'" in ran.err
    assert "Did you mean 'bird'?" in ran.err


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("day,bird\n1,Heron\n2,name\n3,Osprey\n", "name"),
        ('day,bird\n1,"Heron\nname,place,x"\n', "name"),
    ],
)
def test_a_row_of_a_table_is_no_header(
    kglink: Kglink, tmp_path: Path, table: str, column: str
) -> None:
    path = tmp_path / "seen.csv"
    path.write_text(table)
    assert "unknown column" in kglink("resolve", "--column", column, path, code=2).err


def test_names_of_standard_input_as_json(kglink: Kglink) -> None:
    ran = kglink("resolve", "-", "--json", stdin="Heron\n\n osprey \r\n")
    heron, blank, osprey = json.loads(ran.out)
    assert blank is None
    assert heron == {
        "name": "Heron",
        "status": "match",
        "id": "birds:h",
        "title": "Heron",
        "url": "https://birds.example/heron",
        "probability": 0.93,
        "why": ["its title"],
        "also": [],
        "candidates": heron["candidates"],
    }
    assert osprey["name"] == "osprey"


def test_an_encoding_of_standard_input(kglink: Kglink) -> None:
    swan = "Łabędź\n".encode("cp1250")
    ran = kglink("resolve", "-", "--json", "--encoding", "cp1250", stdin=swan)
    assert json.loads(ran.out)[0]["id"] == "birds:ł"
    marked = json.loads(kglink("resolve", "-", "--json", stdin="\ufeffHeron\n").out)
    assert marked == json.loads(kglink("resolve", "-", "--json", stdin="Heron\n").out)
    refused = kglink("resolve", "-", "--encoding", "utf-8", stdin=b"\xff\n", code=1)
    assert "standard input is no utf-8" in refused.err


def test_a_context_and_a_threshold(kglink: Kglink) -> None:
    ran = kglink("resolve", "heron", "--context", "country: Poland", "--threshold", ".95", "--json")
    (heron,) = json.loads(ran.out)
    assert (heron["status"], heron["id"]) == ("ambiguous", None)
    assert heron["candidates"][0]["id"] == "birds:h"


# -------------------------------------------------------------------------------- plain text
@pytest.mark.parametrize(
    ("raw", "delimiter", "end"),
    [
        ("id,bird\n1,Heron\n", ",", "\n"),
        ("id;bird\r\n1;Heron\r\n", ";", "\r\n"),
        ('\ufeffid,"bird"\r\n"1","Heron"', ",", "\r\n"),
        ('id\tbird\tnote\n1\tHeron\t5" nail\n', "\t", "\n"),
        ('bird|note\nHeron|"a ""b""\r\nc"\n\n', "|", "\n"),
        ("\n\nbird,x\n\nHeron,ł\n", ",", "\n"),
        ("x, bird\n1, Heron\n", ",", "\n"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_all_bytes_stay(
    kglink: Kglink, tmp_path: Path, raw: str, delimiter: str, end: str, encoding: str
) -> None:
    written = raw.removeprefix("\ufeff").encode("utf-16") if encoding == "utf-16" else raw.encode()
    out = resolved(kglink, tmp_path, written)
    text = out.decode(encoding)
    more = [added(delimiter), RIGHT.replace(",", delimiter)]
    assert text.count(f"{delimiter}{more[0]}") == text.count(f"{delimiter}{more[1]}") == 1
    back = text.replace(f"{delimiter}{more[0]}", "").replace(f"{delimiter}{more[1]}", "")
    assert (back.encode("utf-16") if encoding == "utf-16" else back.encode()) == written
    assert end in text


def test_an_encoding_that_is_named_stays(kglink: Kglink, tmp_path: Path) -> None:
    raw = "bird,côté\nHeron,é\nŁabędź,x\n".encode("cp1250")
    out = resolved(kglink, tmp_path, raw, "--encoding", "cp1250")
    first, heron, swan = out.decode("cp1250").splitlines()
    assert first == f"bird,côté,{added()}"
    assert heron == f"Heron,é,{RIGHT}"
    assert swan == "Łabędź,x,match,birds:ł,Łabędź,0.93,,"
    raw = "bird,côté\nHeron,é\nLabedz,x\n".encode("cp1252")
    (tmp_path / "u.csv").write_bytes(raw)
    how = ("--encoding", "cp1252", "-o", tmp_path / "u-out.csv")
    ran = kglink("resolve", "--column", "bird", tmp_path / "u.csv", *how, code=2)
    assert "of the answers cannot be written in cp1252" in ran.err
    assert "Convert the table to UTF-8 first" in ran.err
    assert not (tmp_path / "u-out.csv").exists()


def test_an_output_is_packed_as_its_name_says(kglink: Kglink, tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("bird\nHeron\n")
    for name, unpacked in (
        ("b.csv.gz", gzip.open),
        ("b.csv.bz2", bz2.open),
        ("b.csv.xz", lzma.open),
        ("b.csv.zst", zstd.open),
    ):
        kglink("resolve", "--column", "bird", str(table), "-o", str(tmp_path / name))
        with unpacked(tmp_path / name, "rt", encoding="utf-8") as lines:
            assert "Heron,match,birds:h" in lines.read()


def test_a_packed_table_stays_packed(kglink: Kglink, tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"bird\nHeron\n"))
    out = tmp_path / "out.csv.gz"
    kglink("resolve", "--column", "bird", tmp_path / "t.csv.gz", "-o", out)
    assert gzip.decompress(out.read_bytes()) == f"bird,{added()}\nHeron,{RIGHT}\n".encode()


def test_a_table_goes_through_pipes(kglink: Kglink) -> None:
    ran = kglink("resolve", "--column", "bird", "-", stdin="bird\nHeron\n\nnan\n")
    assert ran.out.splitlines()[1] == f"Heron,{RIGHT}"
    assert "resolved" in ran.err
    assert "2 of 2 rows: 1 matched, 0 ambiguous, 1 new, 0 empty" in ran.err


def test_added_cells_are_quoted_and_run_nothing(kglink: Kglink, tmp_path: Path) -> None:
    out = resolved(kglink, tmp_path, b'x,bird\n1,=1+1\n2,"Crane, ""grey"""\n').decode()
    formula, crane = list(csv.reader(io.StringIO(out)))[1:]
    assert formula[:5] == ["1", "=1+1", "match", "birds:e", "'=1+1"]
    assert crane[1:5] == ['Crane, "grey"', "match", "birds:c", 'Crane, "grey"']
    assert '2,"Crane, ""grey""",match,birds:c,"Crane, ""grey""",' in out


def test_a_line_break_in_a_table_of_one_column_is_one_of_its_cell(
    kglink: Kglink, tmp_path: Path
) -> None:
    table = tmp_path / "one.csv"
    table.write_bytes(b'bird\nHeron\n"sea\neagle"\nOsprey\n')
    rows = list(csv.reader(io.StringIO(kglink("resolve", "--column", "bird", str(table)).out)))
    assert [row[0] for row in rows] == ["bird", "Heron", "sea\neagle", "Osprey"]
    assert [row[2] for row in rows[1:]] == ["birds:h", "", "birds:o"]


def test_a_row_that_is_short_is_filled_up(kglink: Kglink, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"bird,x,y\nHeron\n,,\n")
    out = tmp_path / "o.csv"
    ran = kglink("resolve", "--column", "bird", tmp_path / "t.csv", "-o", out)
    assert out.read_text() == f"bird,x,y,{added()}\nHeron,,,{RIGHT}\n,,,,,,,,\n"
    assert "1 row with fewer cells" in ran.err
    assert "1 of 2 rows: 1 matched, 0 ambiguous, 0 new, 1 empty" in ran.err


def test_context_columns_are_read_with_the_name(kglink: Kglink, tmp_path: Path) -> None:
    out = resolved(kglink, tmp_path, b"land,bird\nPoland,Heron\n", "--context", "land")
    assert out.decode().splitlines()[1] == f"Poland,Heron,{RIGHT}"


@pytest.mark.parametrize(
    ("raw", "more", "said"),
    [
        (b"birds,x\nHeron,1\n", (), r"unknown column of t\.csv 'bird'.*There is: birds, x"),
        (b"bird;x\nHeron;1\n", ("--context", "y"), r"unknown column of t\.csv 'y'"),
        (b"bird,bird\nHeron,1\n", (), "2 columns named 'bird'"),
        (b"bird,bird_id\nHeron,1\n", (), "has the column bird_id already"),
        (b"bird,x\nHeron,1\nOsprey,2,3\n", (), "line 3: found 3 cells, the header has 2"),
        (b'bird,x\nHeron,"1\nOsprey,2\n', (), "line 2: a quote opens here"),
        (b"bird,x\nHeron,\xe9\n", (), "line 2.*not valid UTF-8.*--encoding"),
        (b"bird,x\nHeron,\x81\n", ("--encoding", "cp1252"), "line 2: not cp1252"),
        (b"bird,x\n" + b"Heron,1\n" * 9000 + b"a\0b,1\n", (), "line 9002: a NUL byte"),
        (b"\0\1\2bird", (), "is binary"),
        (b"", (), "is empty"),
        (b"\n\n", (), "holds no table"),
        (b"bird,x\nHeron,1\n", ("--threshold", "2"), "no probability"),
        (b"bird,x\nHeron,1\n", ("--json",), "no JSON"),
    ],
)
def test_a_bad_table_leaves_nothing(
    kglink: Kglink, tmp_path: Path, raw: bytes, more: tuple[str, ...], said: str
) -> None:
    (tmp_path / "t.csv").write_bytes(raw)
    out = tmp_path / "out.csv"
    out.write_text("before")
    code = 2 if re.search("unknown|columns? |probability|JSON", said) and "cells" not in said else 1
    code = 1 if "holds" in said else code
    ran = kglink("resolve", "--column", "bird", tmp_path / "t.csv", "-o", out, *more, code=code)
    assert re.search(said, " ".join(ran.err.split())), ran.err
    assert out.read_text() == "before"
    there = {path.name for path in tmp_path.iterdir() if path.suffix != ".partial"}
    assert there == {"out.csv", "t.csv"}  # beside answers to the rows before a bad one


def test_an_output_belongs_to_a_table_and_is_not_the_table(kglink: Kglink, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"bird\nHeron\n")
    table = tmp_path / "t.csv"
    assert "source itself" in kglink("resolve", "--column", "bird", table, "-o", table, code=2).err
    assert "no --column" in kglink("resolve", "Heron", "-o", tmp_path / "o.csv", code=2).err
    assert "t.csv is a table, and no --column" in kglink("resolve", table, code=2).err
    assert "2 were named" in kglink("resolve", "--column", "bird", table, "x", code=2).err
    ran = kglink("resolve", "--column", "bird", table, "-o", tmp_path / "o.xlsx", code=2)
    assert "would be XLSX, and t.csv is text" in ran.err
    assert table.read_bytes() == b"bird\nHeron\n"


def test_a_huge_cell_is_no_name(kglink: Kglink, tmp_path: Path) -> None:
    out = resolved(kglink, tmp_path, b"bird,x\n" + b"h" * 100_000 + b",1\nHeron,2\n").decode()
    assert out.splitlines()[1].endswith(",1,new,,,0,,")
    assert out.splitlines()[2] == f"Heron,2,{RIGHT}"


def test_a_name_is_as_long_as_the_settings_say_in_a_table_or_alone(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_INGEST_MAX_NAME_CHARS", "512")
    long = "Heron " + "of the north " * 50
    out = resolved(kglink, tmp_path, f"bird\n{long}\n".encode()).decode()
    assert out.splitlines()[1].endswith(",new,,,0,,")
    (alone,) = json.loads(kglink("resolve", long, "--json").out)
    assert (alone["status"], alone["candidates"]) == ("new", [])


# ------------------------------------------------------------------------- an interrupted run
@pytest.mark.parametrize("batches", [0, 1, 3])
def test_an_interrupted_run_goes_on_after_what_it_has_answered(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    monkeypatch.setattr(resolving, "BATCH", 10)
    table, alone, out = (tmp_path / f"{name}.csv" for name in ("t", "alone", "out"))
    names = ["Heron", "osprey", "dodo", "", "crane", "Heron the second", "h" * 40_000]
    rows = [f"{names[at % 7]}{at % 13 or ''},{at}" for at in range(60)]
    table.write_text("\n".join(["bird,n", *rows]) + "\n", encoding="utf-8")
    command = ("resolve", "--column", "bird", table, "-o")
    kglink(*command, alone)
    answer, asked = Resolver.cells, list[int]()

    def stop_after(self: Resolver, rows: Sequence[Row]) -> dict[Row, Cells]:
        if len(asked) == batches:
            raise UsageError("stopped")
        asked.append(len(rows))
        return answer(self, rows)

    monkeypatch.setattr(Resolver, "cells", stop_after)
    kglink(*command, out, code=2)
    assert not out.exists()
    assert [path.suffix for path in tmp_path.glob(".out*")] == [".partial"] * (batches > 0)
    done = sum(asked)
    asked = [-1] * 10  # another list, whose length is never that of the batches

    def count(self: Resolver, rows: Sequence[Row]) -> dict[Row, Cells]:
        asked.append(len(rows))
        return answer(self, rows)

    monkeypatch.setattr(Resolver, "cells", count)
    said = kglink(*command, out).err
    assert out.read_bytes() == alone.read_bytes()
    assert (f"resumed    after {done} name" in said) == bool(batches)
    assert len(asked) == 10 + 6 - batches
    assert not list(tmp_path.glob(".out*"))


def test_what_changed_since_an_interrupted_run_is_answered_anew(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "BATCH", 2)
    table, out = tmp_path / "t.csv", tmp_path / "out.csv"
    table.write_text("bird,n\nHeron,1\nOsprey,2\nCrane,3\nHeron,4,5\n", encoding="utf-8")
    command = ("resolve", "--column", "bird", table, "-o", out)
    kglink(*command, code=1)
    table.write_text("bird,n\nHeron,1\nOsprey,2\ndodo,3\nOsprey,4\n", encoding="utf-8")
    assert "after 2 names" in kglink(*command).err
    assert [line.split(",")[2] for line in out.read_text(encoding="utf-8").splitlines()[1:]] == [
        "match", "match", "new", "match",
    ]  # fmt: skip


def test_answers_by_other_weights_are_not_gone_on_with(
    birds_to_resolve: Path, kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "BATCH", 2)
    shutil.copytree(birds_to_resolve, folder := tmp_path / "birds")
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    table, out = tmp_path / "t.csv", tmp_path / "out.csv"
    command = ("resolve", "--column", "bird", table, "-o", out)
    for changes in (False, True):
        table.write_text("bird,n\nHeron,1\nOsprey,2\nCrane,3\nHeron,4,5\n", encoding="utf-8")
        kglink(*command, code=1)
        table.write_text("bird,n\nHeron,1\nOsprey,2\nCrane,3\n", encoding="utf-8")
        if changes:
            with Workspace.open(folder) as workspace:
                space = workspace.space()
                own = space.manifest.model.fingerprint
                write_scoring(space.folder.path, own, PLAIN_SCORING)
        assert ("of an interrupted run" in kglink(*command).err) is not changes
