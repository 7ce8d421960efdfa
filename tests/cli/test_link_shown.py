"""What `kglink link` shows beside links: rejected places, settings of formats, how far it is."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.sources import Problems
from kglink.workspace import Workspace
from kglink.workspace.texts import TextReader
from kglink_cli import console
from kglink_cli.console import Reached
from kglink_cli.link import texts_done

#: At .9 the first is linked, the others are not.
TEXT = "Skerrow Light and a heron in Penzance, said Heron."
SURE = ("--threshold", "0.9")


def rejected_of(kglink: Kglink) -> list[tuple[int, int, str, str]]:
    ran = kglink("link", "-", *SURE, "--rejected", "--json", stdin=TEXT)
    (document,) = json.loads(ran.out)
    return [(one["start"], one["end"], one["text"], one["why"]) for one in document["rejected"]]


@pytest.mark.slow
def test_every_format_that_can_hold_it_shows_what_was_rejected(kglink: Kglink, demo: Path) -> None:
    rejected = rejected_of(kglink)
    assert rejected
    assert all(TEXT[start:end] == surface for start, end, surface, _ in rejected)

    def shown(form: str) -> str:
        return kglink("link", "-", *SURE, "--rejected", "-f", form, stdin=TEXT).out

    table = shown("table")
    assert f"{len(rejected)} place{'s' * (len(rejected) > 1)} not linked" in table
    rows = [one for one in csv.DictReader(io.StringIO(shown("csv"))) if one["rejected"]]
    assert [(int(one["start"]), int(one["end"]), one["text"], one["rejected"]) for one in rows] == (
        rejected
    )
    assert all(one["kb"] == one["key"] == "" for one in rows)
    brat, page, lines = shown("brat"), shown("html"), shown("jsonl")
    for start, end, surface, why in rejected:
        assert why in table
        assert f"REJECTED {start} {end}\t{surface}" in brat
        assert f"\t{why}\n" in brat
        assert f"<tr><td>{surface}</td><td>{why}</td></tr>" in page
    assert len(json.loads(lines)["rejected"]) == len(rejected)
    assert "rejected" not in kglink("link", "-", *SURE, "-f", "csv", stdin=TEXT).out


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("-f", "csv", "--explain"), "kglink/csv cannot show what --explain asks for"),
        (("-f", "pubtator", "--rejected"), "kglink/pubtator cannot show what --rejected asks for"),
        (("--output-set", "colur=never"), "has no setting 'colur' (did you mean 'colour'?)"),
        (("--output-set", "colour"), "--output-set 'colour' is not key=value"),
        (("--output-set", "tabel.colour=never"), "unknown exporter 'tabel'"),
    ],
)
def test_what_a_format_cannot_show_is_refused_with_what_can(
    kglink: Kglink, demo: Path, options: tuple[str, ...], what: str
) -> None:
    err = kglink("link", "-", *options, stdin=TEXT, code=2).err
    assert what in err
    if "cannot show" in what:
        assert "Formats that can: " in err
        assert "kglink/json, " in err


def test_settings_of_a_format_come_from_the_command_line_and_from_the_settings(
    kglink: Kglink, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "[Heron|" in kglink("link", "-", stdin=TEXT).out
    assert "[Heron|" not in kglink("link", "-", "--output-set", "show_text=false", stdin=TEXT).out
    page = kglink("link", "-", "-f", "html", "--output-set", "title=Birds & lamps", stdin=TEXT).out
    assert "<title>Birds &amp; lamps</title>" in page
    coloured = kglink("link", "-", "--output-set", "colour=always", stdin=TEXT).out
    assert "\x1b[" in coloured
    monkeypatch.setenv("KGLINK_LINK_OUTPUT_SETTINGS", '{"table.show_text": false}')
    assert "[Heron|" not in kglink("link", "-", stdin=TEXT).out
    assert kglink("link", "-", "-f", "csv", stdin=TEXT).out.startswith("document,")


# ----------------------------------------------------------------------------- how far it is
def test_texts_done_of_all_texts(tmp_path: Path, demo_master: Path) -> None:
    (tmp_path / "texts").mkdir()
    for number in range(3):
        (tmp_path / "texts" / f"{number}.txt").write_text("Heron.")
    (tmp_path / "texts" / "none.bin").write_bytes(b"\0\1")
    many = tmp_path / "many.jsonl"
    many.write_text('{"text": "Heron."}\n' * 4)
    with Workspace.open(demo_master) as workspace:

        def reader() -> TextReader:
            return TextReader(workspace.registry, Problems(), workspace.settings.link)

        with workspace.open_source(tmp_path / "texts") as folder:
            files = reader()
            assert texts_done(0, files, folder) == Reached("texts", 0, 4, 0)
            read = iter(files.read(folder))
            next(read)
            assert texts_done(1, files, folder) == Reached("texts", 1, 4, 1)
            assert len([*read]) == 2
            assert texts_done(3, files, folder) == Reached("texts", 3, 3, 3)  # one is left out
        with workspace.open_source(many) as file:
            records = reader()
            assert len([*records.read(file)]) == 4
            size = many.stat().st_size
            assert texts_done(2, records, file) == Reached("texts", size, size, 2, "bytes")
        assert texts_done(7, reader(), None) == Reached("texts", 7, None, 7)


def test_a_log_shows_texts_of_texts_and_the_time_left(
    kglink: Kglink, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "LINE_EVERY", 0.0)
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text("A heron.")
    err = kglink("link", folder, "-o", tmp_path / "out.jsonl").err
    assert "  texts 0 of 5 (0%)" in err
    assert "  texts 5 of 5 (100%), " in err
    assert ":00 left" in err
