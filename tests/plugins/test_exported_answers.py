"""What several formats do alike: answers of each KB, ids of discoveries, one document at a time."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kglink.plugins import Exporter, PluginSettings
from kglink.records import KBAnswer, Link, LinkedDocument
from kglink.shown import overlapping
from kglink_kbs.pubtator import PubtatorExporter
from kglink_plugins.exporters.html import HtmlExporter, HtmlSettings
from kglink_plugins.exporters.json_records import JsonExporter, JsonlExporter, JsonSettings
from kglink_plugins.exporters.standoff import (
    BratExporter,
    CsvExporter,
    CsvSettings,
    StandoffSettings,
)
from kglink_plugins.exporters.table import TableExporter, TableSettings
from linked_texts import CLARA, EPISODE, TEXT, TOWER, ZYGON, link, one, written


@pytest.mark.parametrize(
    "exporter",
    [JsonlExporter(JsonSettings()), JsonExporter(JsonSettings()), TableExporter(TableSettings())],
    ids=["jsonl", "json", "table"],
)
def test_each_document_is_flushed_before_the_next_is_asked_for(exporter: Exporter) -> None:
    class Slow(io.StringIO):
        flushed = ""

        def flush(self) -> None:
            self.flushed = self.getvalue()

    out = Slow()
    seen: list[bool] = []

    def documents() -> Iterator[LinkedDocument]:
        for name in ("first", "second"):
            yield one("text of " + name, name=name)
            seen.append("text of " + name in out.flushed)

    exporter.export(documents(), out)
    assert seen == [True, True]


def test_an_id_of_a_discovery_breaks_no_line_and_commands_no_terminal() -> None:
    made = Link(0, 1, "x", (), None, 0.5, cluster="nil\nT9\tkb 0 1\x1b[2Jx")
    assert len(written(BratExporter(StandoffSettings()), one("x", made)).splitlines()) == 2
    plain = written(TableExporter(TableSettings(colour="never")), one("x", made))
    assert "nil T9 kb 0 1␛[2Jx" in plain


def test_overlapping_links_share_one_mark() -> None:
    spans = [(0, 4), (2, 9), (0, 9), (9, 12), (10, 11)]
    links = [Link(start, end, "", (), None, 0.5) for start, end in spans]
    found = [
        ((first.start, first.end), [(item.start, item.end) for item in inner])
        for first, *inner in overlapping(links)
    ]
    assert found == [((0, 9), [(0, 4), (2, 9)]), ((9, 12), [(10, 11)])]


def test_each_kb_answers_in_every_format() -> None:
    told = (KBAnswer("doctor_who", CLARA, 0.97), KBAnswer("wikipedia", None, 0.6))
    nil = (KBAnswer("doctor_who", None, 0.7), KBAnswer("wikipedia", None, 0.8))
    both = (KBAnswer("doctor_who", ZYGON, 0.5), KBAnswer("wikipedia", TOWER, 0.9))
    links = [
        replace(link("Clara Oswald", CLARA), per_kb=told),
        replace(link("the Zygon", ZYGON, nil=True), per_kb=nil),
        replace(link("the Tower", TOWER), per_kb=both),
    ]
    document = one(TEXT, *links)
    (shape,) = json.loads(written(JsonExporter(JsonSettings()), document))
    assert shape["entities"][0]["per_kb"] == [
        {"kb": "doctor_who", "key": "Clara_Oswald", "title": "Clara Oswald",
         "url": "https://who.example/Clara", "score": 0.961235, "confidence": 0.97, "nil": False},
        {"kb": "wikipedia", "key": None, "title": None, "url": None, "score": None,
         "confidence": 0.6, "nil": True},
    ]  # fmt: skip
    assert "per_kb" not in written(JsonExporter(JsonSettings()), EPISODE)
    rows = list(csv.DictReader(io.StringIO(written(CsvExporter(CsvSettings()), document))))
    assert [(row["text"], row["kb"], row["key"], row["confidence"]) for row in rows] == [
        ("Clara Oswald", "doctor_who", "Clara_Oswald", "0.97"),
        ("Clara Oswald", "wikipedia", "", "0.6"),
        ("the Tower", "doctor_who", "Zygon", "0.5"),
        ("the Tower", "wikipedia", "Tower_of_London", "0.9"),
        ("the Zygon", "doctor_who", "", "0.7"),
        ("the Zygon", "wikipedia", "", "0.8"),
    ]
    assert written(PubtatorExporter(PluginSettings()), document).splitlines()[2:-1] == [
        "d\t0\t12\tClara Oswald\tEntity\tdoctor_who:Clara_Oswald",
        "d\t18\t27\tthe Tower\tEntity\tdoctor_who:Zygon",
        "d\t18\t27\tthe Tower\tEntity\twikipedia:Tower_of_London",
        "d\t39\t48\tthe Zygon\tEntity\t-",
    ]
    assert written(BratExporter(StandoffSettings()), document).splitlines() == [
        "T1\tdoctor_who 0 12\tClara Oswald",
        "N1\tReference T1 doctor_who:Clara_Oswald\tClara Oswald",
        "T2\twikipedia 18 27\tthe Tower",
        "N3\tReference T2 doctor_who:Zygon\tZygon",
        "N4\tReference T2 wikipedia:Tower_of_London\tTower of London",
        "T3\tNIL 39 48\tthe Zygon",
    ]
    shown = written(TableExporter(TableSettings(colour="never")), document).splitlines()
    lines = [line.split() for line in shown if line.startswith("  ")]
    assert lines[:2] == [
        ["doctor_who", "doctor_who:Clara_Oswald", ".97", "Clara", "Oswald"],
        ["wikipedia", "NIL", ".60"],
    ]
    assert len(lines) == 6
    page = written(HtmlExporter(HtmlSettings()), document)
    assert "<td>in wikipedia</td><td>NIL</td><td>60%</td>" in page
    data = re.search(r'"per_kb": ?(\[\[.*?\]\])', page)
    assert data is not None
    assert json.loads(data[1]) == [[0, 0, 0.97], [1, None, 0.6]]
