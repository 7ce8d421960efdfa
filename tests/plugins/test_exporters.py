"""The exporters (the page of html in a browser: test_html_browser.py)."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pytest
from rich.cells import cell_len

import kglink_kbs.plugin
from kglink.plugins import Exporter, Factory, PluginSettings, Sniff
from kglink.records import (
    Candidate,
    Document,
    EntityId,
    KBAnswer,
    Link,
    LinkedDocument,
    json_value,
)
from kglink.shown import overlapping, web_address
from kglink.sources import Problems, Source
from kglink.testing import ExporterContract
from kglink.testing.contracts.exporter import ExportedSpan, linked_documents
from kglink.text.printable import printable_json, same_length_line
from kglink_kbs.bioc import BiocExporter, BiocWriterSettings
from kglink_kbs.labelstudio import LabelStudioExporter
from kglink_kbs.nif import NifExporter
from kglink_kbs.pubtator import PubtatorAdapter, PubtatorExporter, PubtatorSettings
from kglink_plugins.exporters.html import HtmlExporter, HtmlSettings
from kglink_plugins.exporters.json_records import JsonExporter, JsonlExporter, JsonSettings
from kglink_plugins.exporters.standoff import (
    BratExporter,
    BratTextExporter,
    CsvExporter,
    StandoffSettings,
)
from kglink_plugins.exporters.summary import one_line
from kglink_plugins.exporters.table import TableExporter, TableSettings, short
from kglink_plugins.plugin import register_exporters

TEXT = "Clara Oswald left the Tower of London; the Zygon commander stayed."
CLARA = Candidate(
    EntityId("doctor_who", "Clara_Oswald"),
    "Clara Oswald",
    0.9612345678,
    url="https://who.example/Clara",
    description="A teacher at Coal Hill School.",
    evidence={"exact_name": 1.0, "text_vector": 0.33333333},
    also=(EntityId("wikipedia", "Clara_Oswald"),),
)
TOWER = Candidate(EntityId("wikipedia", "Tower_of_London"), "Tower of London", 0.93)
ZYGON = Candidate(EntityId("doctor_who", "Zygon"), "Zygon", 0.11)


def link(surface: str, *candidates: Candidate, nil: bool = False, sure: float = 0.9) -> Link:
    start = TEXT.index(surface)
    chosen = None if nil or not candidates else candidates[0]
    return Link(start, start + len(surface), surface, candidates, chosen, sure)


EPISODE = LinkedDocument(
    "episode.txt",
    TEXT,
    (
        link("Clara Oswald", CLARA, TOWER, sure=0.97),
        link("the Tower of London", TOWER, sure=0.93),
        link("the Zygon commander", ZYGON, nil=True, sure=0.81),
    ),
    {"seconds": 0.4},
)


def written(exporter: Exporter, *documents: LinkedDocument) -> str:
    out = io.StringIO()
    exporter.export(documents, out)
    return out.getvalue()


def one(text: str, *links: Link, name: str = "d") -> LinkedDocument:
    return LinkedDocument(name, text, links)


# --------------------------------------------------------------------------------- contracts
class TestJsonlContract(ExporterContract):
    output = "jsonl"

    def make(self) -> Exporter:
        return JsonlExporter(JsonSettings(explain=True))


class TestJsonContract(ExporterContract):
    output = "json"

    def make(self) -> Exporter:
        return JsonExporter(JsonSettings())


class TestNifContract(ExporterContract):
    def make(self) -> Exporter:
        return NifExporter(PluginSettings())


class TestBiocContract(ExporterContract):
    def make(self) -> Exporter:
        return BiocExporter(BiocWriterSettings())


class TestBiocJsonContract(ExporterContract):
    def make(self) -> Exporter:
        return BiocExporter(BiocWriterSettings(syntax="json"))


class TestLabelStudioContract(ExporterContract):
    output = "json"

    def make(self) -> Exporter:
        return LabelStudioExporter(PluginSettings())

    def exported_spans(self, output: str) -> Iterator[ExportedSpan]:
        for task in json.loads(output):
            for one in task["predictions"][0]["result"]:
                value = one["value"]
                if one["type"] == "labels":
                    place = (value["start"], value["end"], value["text"])
                    yield ExportedSpan(task["data"]["text"], *place)


class TestTableContract(ExporterContract):
    def make(self) -> Exporter:
        return TableExporter(TableSettings(colour="always", explain=True))


class TestHtmlContract(ExporterContract):
    streams = False  # the legend with its counts stands before the documents

    def make(self) -> Exporter:
        return HtmlExporter(HtmlSettings(explain=True))


class TestCsvContract(ExporterContract):
    def make(self) -> Exporter:
        return CsvExporter(StandoffSettings())


class TestPubtatorContract(ExporterContract):
    def make(self) -> Exporter:
        return PubtatorExporter(PluginSettings())


class TestBratContract(ExporterContract):
    def make(self) -> Exporter:
        return BratExporter(StandoffSettings())


class TestBratTextContract(ExporterContract):
    def make(self) -> Exporter:
        return BratTextExporter()


def test_all_formats_are_registered() -> None:
    made: dict[str, object] = {}

    def register(
        name: str,
        factory: Factory,
        *,
        settings: type[PluginSettings] | None = None,
        summary: str,
        extra: str = "",
        sniff: Sniff | None = None,
        texts: bool = False,
    ) -> None:
        assert not sniff
        assert not texts
        assert summary
        assert not extra
        made[name] = factory((settings or PluginSettings)())

    register_exporters(register)
    kglink_kbs.plugin.register_exporters(register)
    assert {name: type(exporter) for name, exporter in made.items()} == {
        "kglink/table": TableExporter,
        "kglink/jsonl": JsonlExporter,
        "kglink/json": JsonExporter,
        "kglink/html": HtmlExporter,
        "kglink/csv": CsvExporter,
        "kglink/pubtator": PubtatorExporter,
        "kglink/brat": BratExporter,
        "kglink/brat-text": BratTextExporter,
        "kglink/nif": NifExporter,
        "kglink/bioc": BiocExporter,
        "kglink/labelstudio": LabelStudioExporter,
    }


# ------------------------------------------------------------------------------------- JSON
def test_jsonl_has_the_documented_shape() -> None:
    line = written(JsonlExporter(JsonSettings()), EPISODE)
    assert line.endswith("\n")
    assert line.count("\n") == 1
    record = json.loads(line)
    assert list(record) == ["id", "text", "entities", "meta"]
    assert record["meta"] == {"seconds": 0.4}
    assert record["entities"][0] == {
        "start": 0,
        "end": 12,
        "text": "Clara Oswald",
        "kb": "doctor_who",
        "key": "Clara_Oswald",
        "title": "Clara Oswald",
        "url": "https://who.example/Clara",
        "score": 0.961235,
        "confidence": 0.97,
        "nil": False,
        "candidates": [
            {
                "kb": "doctor_who",
                "key": "Clara_Oswald",
                "title": "Clara Oswald",
                "score": 0.961235,
            },
            {
                "kb": "wikipedia",
                "key": "Tower_of_London",
                "title": "Tower of London",
                "score": 0.93,
            },
        ],
        "also": [{"kb": "wikipedia", "key": "Clara_Oswald"}],
    }


def test_jsonl_nil_keeps_its_candidates_and_has_null_for_the_rest() -> None:
    nil = json.loads(written(JsonlExporter(JsonSettings()), EPISODE))["entities"][2]
    assert {key: nil[key] for key in ("kb", "key", "title", "url", "score")} == dict.fromkeys(
        ("kb", "key", "title", "url", "score")
    )
    assert nil["nil"] is True
    assert nil["confidence"] == 0.81
    assert [item["key"] for item in nil["candidates"]] == ["Zygon"]
    assert nil["also"] == []


def test_jsonl_explain_adds_the_evidence() -> None:
    record = json.loads(written(JsonlExporter(JsonSettings(explain=True)), EPISODE))
    evidence = record["entities"][0]["candidates"][0]["evidence"]
    assert evidence == {"exact_name": 1.0, "text_vector": 0.333333}


def test_json_is_one_list_of_the_same_records() -> None:
    other = one("nothing here", name="two")
    lines = written(JsonlExporter(JsonSettings()), EPISODE, other).splitlines()
    listed = json.loads(written(JsonExporter(JsonSettings()), EPISODE, other))
    assert listed == [json.loads(line) for line in lines]


def test_json_of_no_documents_is_an_empty_list() -> None:
    assert written(JsonExporter(JsonSettings())) == "[]\n"
    assert written(JsonlExporter(JsonSettings())) == ""


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


@pytest.mark.parametrize(
    "text",
    [
        "a\u2028b\u2029c\x85d\x0be\x1cf",
        "naïve 東京 👩‍🚀",
        '"\\\n\r\t',
    ],
    ids=["line-breaks", "unicode", "escapes"],
)
def test_jsonl_gives_back_every_text_on_one_encodable_line(text: str) -> None:
    line = written(JsonlExporter(JsonSettings()), one(text))
    assert line.splitlines() == [line[:-1]]
    assert json.loads(line.encode("utf-8"))["text"] == text


def test_jsonl_keeps_offsets_where_two_surrogates_would_melt_into_one_character() -> None:
    assert json.loads(printable_json("\ud83d\ude00 end \ud83d")) == "\ufffd\ufffd end \ufffd"


@pytest.mark.parametrize("exporter", [JsonExporter, JsonlExporter])
@pytest.mark.parametrize(("start", "end"), [(2, 3), (3, 4), (2, 4), (3, 6)])
def test_json_of_a_mention_that_cuts_a_surrogate_pair_says_its_slice_of_the_text(
    exporter: type[JsonExporter] | type[JsonlExporter], start: int, end: int
) -> None:
    text = "a \ud83d\ude00 b"
    document = one(text, Link(start, end, text[start:end], (), None, 0.5))
    output = written(exporter(JsonSettings()), document)
    (back,) = json.loads(output if output.startswith("[") else f"[{output}]")
    (mention,) = back["entities"]
    assert mention["text"] == back["text"][start:end]
    assert len(back["text"]) == len(text)


def test_an_id_of_a_discovery_breaks_no_line_and_commands_no_terminal() -> None:
    made = Link(0, 1, "x", (), None, 0.5, cluster="nil\nT9\tkb 0 1\x1b[2Jx")
    assert len(written(BratExporter(StandoffSettings()), one("x", made)).splitlines()) == 2
    plain = written(TableExporter(TableSettings(colour="never")), one("x", made))
    assert "nil T9 kb 0 1␛[2Jx" in plain


def test_jsonl_writes_unicode_as_it_is() -> None:
    assert "東京 👩‍🚀" in written(JsonlExporter(JsonSettings()), one("東京 👩‍🚀"))


def test_numbers_without_a_value_become_null() -> None:
    odd = Candidate(EntityId("a", "b"), "t", math.nan)
    record = json.loads(
        written(JsonlExporter(JsonSettings()), one(TEXT, link("Clara", odd, sure=math.inf)))
    )
    assert record["entities"][0]["score"] is None
    assert record["entities"][0]["confidence"] is None


def test_meta_of_any_kind_becomes_json() -> None:
    class Named:
        def __str__(self) -> str:
            return "named"

    meta = {"n": 3, "set": {"b", "a"}, "deep": {1: (0.12345678, None)}, "x": Named(), "yes": True}
    assert json_value(meta) == {
        "n": 3,
        "set": ["a", "b"],
        "deep": {"1": [0.123457, None]},
        "x": "named",
        "yes": True,
    }


# ------------------------------------------------------------------------------------ table
def test_table_is_aligned_plain_text_off_a_terminal() -> None:
    assert written(TableExporter(TableSettings()), EPISODE) == (
        "episode.txt\n"
        "[Clara Oswald|doctor_who] left [the Tower of London|wikipedia];"
        " [the Zygon commander|NIL] stayed.\n"
        "\n"
        "Clara Oswald          doctor_who:Clara_Oswald     .97   also wikipedia:Clara_Oswald\n"
        "the Tower of London   wikipedia:Tower_of_London   .93\n"
        "the Zygon commander   NIL                         .81   nearest doctor_who:Zygon .11\n"
        "\n"
        "3 mentions, 2 linked, 1 NIL\n"
    )


def test_table_names_what_neither_mention_nor_key_says() -> None:
    tam = Candidate(EntityId("hesk", "3"), "Tamsin Reed", 0.9, also=(EntityId("enc", "Q7"),))
    voss = Candidate(EntityId("hesk", "tamsin_reed"), "Tamsin Reed", -0.001)
    links = [Link(0, 3, "Tam", (), tam, 0.9), Link(0, 3, "Tam", (), voss, -0.001)]
    links += [Link(0, 11, "tamsin reed", (), replace(tam, also=()), 0.9)]
    rows = written(TableExporter(TableSettings(show_text=False)), one("Tam, tamsin reed", *links))
    assert [row.split("hesk:")[1].split() for row in rows.splitlines() if "hesk:" in row] == [
        ["3", ".90"],
        ["3", ".90", "Tamsin", "Reed", "also", "enc:Q7"],
        ["tamsin_reed", ".00"],
    ]


def test_table_explain_shows_the_parts_of_each_score() -> None:
    lines = written(TableExporter(TableSettings(explain=True, show_text=False)), EPISODE)
    assert lines.splitlines()[2:5] == [
        "     candidate                  score  exact name  text vector  entity",
        "  >  doctor_who:Clara_Oswald      .96        1.00          .33  Clara Oswald",
        "     wikipedia:Tower_of_London    .93                           Tower of London",
    ]


def test_table_aligns_by_width_on_the_screen() -> None:
    text = "東京 e\u0301tude 👩‍🚀 plain"
    links = []
    for surface in ("東京", "e\u0301tude", "👩‍🚀", "plain"):
        start = text.index(surface)
        links.append(Link(start, start + len(surface), surface, (), TOWER, 0.5))
    rows = written(TableExporter(TableSettings(show_text=False)), one(text, *links))
    columns = {cell_len(row.split("wikipedia:")[0]) for row in rows.splitlines() if ":" in row}
    assert columns == {len("plain") + 3}


def test_table_colours_and_underlines_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("COLUMNS", "200")

    def shown() -> str:
        out = Terminal()
        TableExporter(TableSettings()).export([EPISODE], out)
        return out.getvalue()

    # 4 is underline, 38;2;0;150;214 the first KB's colour #0096d6.
    assert "\x1b[4;38;2;0;150;214mClara Oswald\x1b[0m" in shown()
    plain_text = re.sub(r"\x1b\[[\d;]*m", "", shown())
    assert plain_text == written(TableExporter(TableSettings(colour="never")), EPISODE)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown()


def test_table_interprets_neither_markup_nor_control_characters() -> None:
    evil = Candidate(EntityId("kb", "k\x1b[2J"), "t", 0.5)
    text = "[bold]x[/bold]\x1b]0;title\x07 \u202eend"
    item = Link(0, 14, "[bold]x[/bold]", (evil,), evil, 0.5)
    shown = written(
        TableExporter(TableSettings(colour="always", explain=True)),
        one(text, item, name="\x9bJ:smile:"),
    )
    left = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", left)
    assert "[bold]x[/bold]" in left
    assert "␛]0;title␇ �end" in left
    assert "kb:k␛[2J" in left
    assert "�J:smile:" in left


#: What a terminal, or a reader of lines, would obey: both sets of control characters, marks that
#: turn the direction, Unicode line breaks, and half of a surrogate pair.
OBEYED = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F))))
OBEYED += "".join(map(chr, range(0x2066, 0x206A))) + "\ud800"


def everywhere(char: str) -> LinkedDocument:
    """A document with a character in everything that is text."""
    evil = f"a{char}b"
    candidate = Candidate(
        EntityId(evil, evil),
        evil,
        0.5,
        url=f"https://x.example/{evil}",
        description=evil,
        type=evil,
        evidence={evil: 0.5},
        aliases=(evil,),
        parents=(evil,),
        also=(EntityId(evil, evil),),
    )
    links = (Link(0, 3, evil, (candidate,), candidate, 0.5), Link(4, 5, "c", (candidate,), None, 1))
    return LinkedDocument(evil, f"{evil} c", links, {"notes": [evil], "truncated": evil})


@pytest.mark.parametrize("colour", ["never", "always"])
@pytest.mark.parametrize("explain", [False, True])
def test_no_character_that_a_terminal_obeys_comes_through_the_table(
    colour: Literal["never", "always"], explain: bool
) -> None:
    exporter = TableExporter(TableSettings(colour=colour, explain=explain))
    lines = written(exporter, everywhere("-")).count("\n")
    for char in OBEYED:
        shown = written(exporter, everywhere(char))
        left = re.sub(r"\x1b\[[\d;]*m", "", shown)
        assert not set(left) & (set(OBEYED) - {"\n"}), f"{char!r} comes through"
        assert shown.count("\n") == lines, f"{char!r} breaks a line"


@pytest.mark.parametrize("exporter", [JsonExporter, JsonlExporter])
def test_json_holds_such_characters_as_escapes_alone(
    exporter: type[JsonExporter] | type[JsonlExporter],
) -> None:
    for char in OBEYED:
        output = written(exporter(JsonSettings(explain=True)), everywhere(char))
        assert not set(output) & (set(OBEYED) - {"\n"}), f"{char!r} comes through"
        (document,) = json.loads(output if output.startswith("[") else f"[{output}]")
        assert document["id"] == ("a\ufffdb" if char == "\ud800" else f"a{char}b")


def test_table_cuts_a_long_text_and_says_so() -> None:
    text = "word " * 100
    mention = Link(95, 109, text[95:109], (), TOWER, 0.5)
    shown = written(TableExporter(TableSettings(text_limit=100)), one(text, mention))
    assert "… 391 more characters not shown" in shown
    assert "[word word word|wikipedia]\n" in shown
    shown = written(TableExporter(TableSettings(text_limit=98)), one(text))
    assert "… 406 more characters not shown" in shown


def test_table_says_what_was_cut_and_counts_documents() -> None:
    document = LinkedDocument("a", "x", (), {"warnings": ["3 windows dropped"], "seconds": 1})
    shown = written(TableExporter(TableSettings()), document, one("y"))
    assert "note: warnings: 3 windows dropped\n" in shown
    assert "seconds" not in shown
    assert shown.endswith("0 mentions, 0 linked, 0 NIL   2 documents\n")


def test_table_survives_a_narrow_encoding() -> None:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii", write_through=True) as out:
        TableExporter(TableSettings()).export([one("naïve 東京")], out)
        assert raw.getvalue().startswith(b"d\nna?ve ??\n")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.97, ".97"),
        (1.0, "1.00"),
        (0.0, ".00"),
        (-0.05, "-.05"),
        (12.345, "12.35"),
        (10.0, "10.00"),
    ],
)
def test_short_numbers(value: float, expected: str) -> None:
    assert short(value) == expected


def test_one_line_is_one_line() -> None:
    assert one_line(" a\r\n\tb\u2028c\x00 ") == "a b c␀"


def test_overlapping_links_share_one_mark() -> None:
    spans = [(0, 4), (2, 9), (0, 9), (9, 12), (10, 11)]
    links = [Link(start, end, "", (), None, 0.5) for start, end in spans]
    found = [
        ((first.start, first.end), [(item.start, item.end) for item in inner])
        for first, *inner in overlapping(links)
    ]
    assert found == [((0, 9), [(0, 4), (2, 9)]), ((9, 12), [(10, 11)])]


# --------------------------------------------------------------- lines: PubTator, BRAT, CSV
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
    assert written(CsvExporter(StandoffSettings()), EPISODE).splitlines() == [
        "document,start,end,text,kb,key,title,url,score,confidence,also",
        "episode.txt,0,12,Clara Oswald,doctor_who,Clara_Oswald,Clara Oswald,"
        "https://who.example/Clara,0.961235,0.97,wikipedia:Clara_Oswald",
        "episode.txt,18,37,the Tower of London,wikipedia,Tower_of_London,Tower of London,,0.93,"
        "0.93,",
        "episode.txt,39,58,the Zygon commander,,,,,,0.81,",
    ]
    assert written(CsvExporter(StandoffSettings())).count("\n") == 1


def test_csv_says_what_the_texts_say() -> None:
    rows = csv.DictReader(io.StringIO(written(CsvExporter(StandoffSettings()), *NASTY), newline=""))
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
    output = written(CsvExporter(StandoffSettings()), document)
    _, cells = csv.reader(io.StringIO(output, newline=""))
    assert {cells[at] for at in (0, 3, 4, 5, 6, 7)} == {f"'{evil}"}
    assert cells[8] == "-0.5"  # a number is one


# ------------------------------------------------------------------------------------- html
class Page(HTMLParser):
    """The parts of a page that the tests look at."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.contents: dict[str, list[str]] = {"style": [], "script": []}
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self._inside = tag
        if tag in self.contents:
            self.contents[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.contents:
            self.contents[self._inside][-1] += data

    def having(self, attribute: str) -> list[str]:
        return [attrs[attribute] for _, attrs in self.tags if attribute in attrs]


def page_of(*documents: LinkedDocument, settings: HtmlSettings | None = None) -> Page:
    return Page(written(HtmlExporter(settings or HtmlSettings()), *documents))


def test_html_needs_nothing_but_itself() -> None:
    page = page_of(EPISODE)
    assert not page.having("src")
    assert {tag for tag, _ in page.tags} & {"link", "img", "iframe", "object", "base"} == set()
    assert "url(" not in page.contents["style"][0]
    assert "@import" not in page.contents["style"][0]


def test_html_policy_allows_exactly_its_own_style_and_script() -> None:
    page = page_of(EPISODE)
    policy = next(item["content"] for _, item in page.tags if "http-equiv" in item)

    def allowed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    directives = dict(item.strip().split(" ", 1) for item in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["base-uri"] == directives["form-action"] == "'none'"
    assert directives["style-src"] == allowed(page.contents["style"][0])
    assert directives["script-src"] == allowed(page.contents["script"][-1])
    inline = [
        name for _, attrs in page.tags for name in attrs if name[:2] == "on" or name == "style"
    ]
    assert inline == []


def test_html_marks_every_mention_for_pointer_keyboard_and_screen_reader() -> None:
    page = page_of(EPISODE)
    found = [item for tag, item in page.tags if tag == "span" and item.get("role") == "button"]
    assert [item["aria-label"] for item in found] == [
        "Clara Oswald: doctor_who:Clara_Oswald, 97% sure",
        "the Tower of London: wikipedia:Tower_of_London, 93% sure",
        "the Zygon commander: no entity (NIL), 81% sure",
    ]
    assert [item["class"] for item in found] == ["m kb0 c0 u0", "m kb1 c1 u1", "m nil"]
    assert {item["tabindex"] for item in found} == {"0"}
    assert len({item["id"] for item in found}) == 3


def test_html_keeps_hostile_data_as_text() -> None:
    hostile = "</script><script>alert(1)</script><!--\"'&amp;"
    evil = Candidate(
        EntityId(hostile, hostile),
        hostile,
        0.5,
        url="javascript:alert(1)",
        description=hostile,
        type=hostile,
        evidence={hostile: 1.0},
        also=(EntityId(hostile, hostile),),
    )
    text = f"{hostile} end"
    item = Link(0, len(hostile), hostile, (evil,), evil, 0.5)
    document = LinkedDocument(hostile, text, (item,), {hostile: hostile, "notes": hostile})
    page = page_of(document, settings=HtmlSettings(title=hostile, explain=True))
    harmless = page_of(EPISODE)
    assert [tag for tag, _ in page.tags if tag in {"script", "style"}] == [
        tag for tag, _ in harmless.tags if tag in {"script", "style"}
    ]
    assert page.contents["script"][-1] == harmless.contents["script"][-1]
    assert not [url for url in page.having("href") if "javascript" in url]
    entity = json.loads(page.contents["script"][-2])["entities"][0]
    assert entity["title"] == hostile
    assert entity["url"] is None


def test_html_data_holds_the_answers() -> None:
    page = page_of(EPISODE, settings=HtmlSettings(description_limit=9))
    answers, shared = (json.loads(text) for text in page.contents["script"][:2])
    assert shared["kbs"] == ["doctor_who", "wikipedia"]
    assert [item["id"] for item in shared["entities"]] == [
        "doctor_who:Clara_Oswald",
        "wikipedia:Tower_of_London",
        "doctor_who:Zygon",
    ]
    assert shared["entities"][0]["description"] == "A teacher …"
    assert answers[0]["candidates"][0]["also"] == [[1, "wikipedia:Clara_Oswald"]]
    assert [item["chosen"] for item in answers] == [0, 1, None]
    assert "evidence" not in answers[0]["candidates"][0]


def test_html_lists_documents_kbs_and_notes() -> None:
    note = LinkedDocument("two", "x", (), {"cut": "2 windows"})
    page = written(HtmlExporter(HtmlSettings()), EPISODE, note)
    assert "3 mentions, 2 linked, 1 NIL in 2 documents" in page
    assert '<p class="note">cut: 2 windows</p>' in page
    shows = Page(page).having("data-shows")
    assert shows == ["kb0", "kb1", "nil"]
    assert '<a href="#d2">two</a>' in page


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://a.example/b?c=1&d", True),
        ("HTTP://a.example", True),
        ("javascript:alert(1)", False),
        (" https://a.example", False),
        ("https://a.example/\nx", False),
        ("data:text/html,x", False),
        ("//a.example", False),
        ("", False),
    ],
)
def test_only_web_addresses_become_links(url: str, *, allowed: bool) -> None:
    assert web_address(url) == (url if allowed else None)


def test_html_colours_stand_out_from_the_page_and_from_each_other() -> None:
    style = page_of(EPISODE).contents["style"][0]
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    for block in (light, dark):
        values = dict(re.findall(r"--([\w]+): (#[0-9a-f]{6})", block))
        marks_of = [values[f"c{number}"] for number in range(7)]
        assert len(set(marks_of)) == 7
        assert min(contrast(colour, values["page"]) for colour in (*marks_of, values["nil"])) >= 3
        for ink in ("ink", "soft", "link"):
            assert contrast(values[ink], values["page"]) >= 4.5
            assert contrast(values[ink], values["card"]) >= 4.5


def contrast(one_colour: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2 (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio)."""

    def luminance(colour: str) -> float:
        channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one_colour), luminance(other)))
    return (high + 0.05) / (low + 0.05)


# -------------------------------------------------------------------------- an answer of each KB
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
    rows = list(csv.DictReader(io.StringIO(written(CsvExporter(StandoffSettings()), document))))
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
