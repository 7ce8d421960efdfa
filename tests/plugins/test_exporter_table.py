"""The table: what it shows, how it is aligned, and that no text commands a terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Literal

import pytest
from rich.cells import cell_len

from kglink.records import Candidate, EntityId, Link, LinkedDocument
from kglink_plugins.exporters.summary import one_line
from kglink_plugins.exporters.table import TableExporter, TableSettings, short
from linked_texts import EPISODE, OBEYED, TOWER, everywhere, one, written


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
