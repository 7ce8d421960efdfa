"""PubTator, BRAT and CSV: a line for each link, whatever the texts hold."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from kglink.plugins import PluginSettings
from kglink.records import Candidate, Document, EntityId, Link
from kglink.sources import Problems, Source
from kglink.testing.contracts.exporter import linked_documents
from kglink.text.printable import same_length_line
from kglink_kbs.pubtator import PubtatorAdapter, PubtatorExporter, PubtatorSettings
from kglink_plugins.exporters.standoff import (
    BratExporter,
    BratTextExporter,
    CsvExporter,
    CsvSettings,
    StandoffSettings,
)
from linked_texts import CLARA, EPISODE, TEXT, one, written

NASTY = linked_documents()
BROKEN = one(
    "line\r\none\u2028two\tA\ud800B",
    Link(10, 17, "two\tA\ud800B", (CLARA,), CLARA, 0.5),
    name="b|r\n\too",
)


def test_every_break_becomes_one_space() -> None:
    assert same_length_line(BROKEN.text) == "line  one two A\ufffdB"
    for document in NASTY:
        line = same_length_line(document.text)
        assert len(line) == len(document.text)
        assert len(line.splitlines()) <= 1


def test_pubtator_by_hand() -> None:
    assert written(PubtatorExporter(PluginSettings()), EPISODE, BROKEN) == (
        f"episode.txt|t|{TEXT}\n"
        "episode.txt|a|\n"
        "episode.txt\t0\t12\tClara Oswald\tEntity\tdoctor_who:Clara_Oswald\n"
        "episode.txt\t18\t37\tthe Tower of London\tEntity\twikipedia:Tower_of_London\n"
        "episode.txt\t39\t58\tthe Zygon commander\tEntity\t-\n"
        "\n"
        "b_r  oo|t|line  one two A\ufffdB\n"
        "b_r  oo|a|\n"
        "b_r  oo\t10\t17\ttwo A\ufffdB\tEntity\tdoctor_who:Clara_Oswald\n"
        "\n"
    )


def test_pubtator_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "linked.pubtator"
    documents = [document for document in NASTY if document.text.strip()]
    path.write_text(written(PubtatorExporter(PluginSettings()), *documents), "utf-8", newline="")
    with Source.open_path(path) as source:
        read = list(PubtatorAdapter(PubtatorSettings()).read(source, Problems("stop")))
    assert len(read) == len(documents)
    for document, back in zip(documents, read, strict=True):
        assert isinstance(back, Document)
        assert back.text == same_length_line(document.text)
        places = sorted((link.start, link.end) for link in document.links)
        assert [(one.start, one.end) for one in back.mentions] == places


def test_brat_by_hand() -> None:
    odd = Candidate(EntityId("kb", "a b%c\u3000d"), "A\nB", 0.5)
    second = one("x y", Link(2, 3, "y", (odd,), odd, 0.5))
    assert written(BratExporter(StandoffSettings()), EPISODE, second) == (
        "T1\tdoctor_who 0 12\tClara Oswald\n"
        "N1\tReference T1 doctor_who:Clara_Oswald\tClara Oswald\n"
        "T2\twikipedia 18 37\tthe Tower of London\n"
        "N2\tReference T2 wikipedia:Tower_of_London\tTower of London\n"
        "T3\tNIL 39 58\tthe Zygon commander\n"
        f"T4\tkb {len(TEXT) + 3} {len(TEXT) + 4}\ty\n"
        "N4\tReference T4 kb:a%20b%25c%E3%80%80d\tA B\n"
    )


def test_brat_counts_in_the_texts_that_brat_text_writes() -> None:
    text = written(BratTextExporter(), *NASTY)
    lines = written(BratExporter(StandoffSettings()), *NASTY).split("\n")
    found = [line.split("\t") for line in lines if line.startswith("T")]
    assert len(found) == sum(len(document.links) for document in NASTY)
    for _, place, surface in found:
        start, end = map(int, place.split(" ")[1:])
        assert text[start:end] == surface
    assert text.count("\n") == len(NASTY)
    # A single text is its own file: the breaks in it are places of one character too.
    (alone,) = (document for document in NASTY if document.text.startswith("Ada\r\nmet"))
    for line in written(BratExporter(StandoffSettings()), alone).split("\n"):
        if line.startswith("T"):
            _, place, surface = line.split("\t")
            start, end = map(int, place.split(" ")[1:])
            assert same_length_line(alone.text[start:end]) == surface


def test_csv_by_hand() -> None:
    assert written(CsvExporter(CsvSettings()), EPISODE).splitlines() == [
        "document,start,end,text,kb,key,title,url,score,confidence,also",
        "episode.txt,0,12,Clara Oswald,doctor_who,Clara_Oswald,Clara Oswald,"
        "https://who.example/Clara,0.961235,0.97,wikipedia:Clara_Oswald",
        "episode.txt,18,37,the Tower of London,wikipedia,Tower_of_London,Tower of London,,0.93,"
        "0.93,",
        "episode.txt,39,58,the Zygon commander,,,,,,0.81,",
    ]
    assert written(CsvExporter(CsvSettings())).count("\n") == 1


def test_csv_for_excel() -> None:
    plain = written(CsvExporter(CsvSettings()), EPISODE)
    marked = written(CsvExporter(CsvSettings(delimiter=";", bom=True)), EPISODE)
    assert marked[0] == "\ufeff"
    read = [
        list(csv.reader(io.StringIO(plain))),
        list(csv.reader(io.StringIO(marked[1:]), delimiter=";")),
    ]
    assert read[0] == read[1]


def test_csv_says_what_the_texts_say() -> None:
    rows = csv.DictReader(io.StringIO(written(CsvExporter(CsvSettings()), *NASTY), newline=""))
    links = [item for document in NASTY for item in document.links]
    for row, item in zip(rows, links, strict=True):
        assert (int(row["start"]), int(row["end"])) == (item.start, item.end)
        assert row["text"].removeprefix("'") == item.surface.removeprefix("'").replace(
            "\0", "\ufffd"
        )


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_no_cell_of_a_csv_file_is_a_formula(start: str) -> None:
    evil = f"{start}HYPERLINK(1)"
    candidate = Candidate(EntityId(evil, evil), evil, -0.5, url=evil)
    document = one(evil, Link(0, len(evil), evil, (candidate,), candidate, 0.5), name=evil)
    output = written(CsvExporter(CsvSettings()), document)
    _, cells = csv.reader(io.StringIO(output, newline=""))
    assert {cells[at] for at in (0, 3, 4, 5, 6, 7)} == {f"'{evil}"}
    assert cells[8] == "-0.5"  # a number is one
