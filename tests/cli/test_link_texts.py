"""`kglink link` on texts as people have them: files of many formats, and lines as they arrive."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from kglink.testing.contracts.detector import SampleNames
from kglink.workspace import Workspace
from office_files import paragraph, word_file
from token_models import write_spacy_pipeline

MAIL = "Subject: Skerrow Light\nMessage-ID: <1@a>\nReceived: b\n\nHeron counts the lamps.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "texts"
    made.mkdir()
    (made / "a.eml").write_text(MAIL, encoding="utf-8-sig")  # as Windows writes it
    (made / "b.html").write_text("<!doctype html><p>Heron &amp; <b>Tur</b>ner", encoding="utf-8")
    (made / "c.md").write_text("# Heron\n\n```\nTurner\n```\n", encoding="utf-8")
    (made / "d.docx").write_bytes(word_file(paragraph("The Heron")))
    (made / "e.bin").write_bytes(b"Heron\x00\x01")
    return made


def linked(kglink: Kglink, *arguments: str | Path, stdin: str = "") -> list[dict[str, Any]]:
    ran = kglink("link", *arguments, "-f", "jsonl", stdin=stdin)
    records = [json.loads(line) for line in ran.out.splitlines()]
    for record in records:
        for one in record["entities"]:
            assert record["text"][one["start"] : one["end"]] == one["text"]
    return records


def test_each_file_of_a_folder_is_read_as_its_format_wants(
    kglink: Kglink, demo: Path, folder: Path
) -> None:
    mail, page, readme, word = linked(kglink, folder)
    assert mail["text"] == "Skerrow Light\n\nHeron counts the lamps."
    assert mail["meta"]["source"]["parts"] == [
        {"part": "subject", "start": 0, "end": 13},
        {"part": "body", "start": 15, "end": 38},
    ]
    assert (page["text"], readme["text"], word["text"]) == ("Heron & Turner", "Heron", "The Heron")
    with_code = linked(kglink, folder / "c.md", "--input-set", "code=true")
    assert "Turner" in with_code[0]["text"]


def test_annotated_texts_are_known_by_their_beginning(
    kglink: Kglink, demo: Path, tmp_path: Path
) -> None:
    note, made = tmp_path / "note.txt", tmp_path / "made"
    note.write_text("Heron counts the lamps.", encoding="utf-8")
    made.mkdir()
    for name in ("a.pubtator", "b.nif", "c.bioc", "d.jsonl"):
        kglink("link", note, "-f", name[2:], "-o", made / name)
    texts = linked(kglink, made)
    assert [one["id"] for one in texts] == ["note.txt"] * 4
    assert all(one["meta"]["mentions"] == "given" for one in texts)
    (marked,) = linked(kglink, made / "a.pubtator", "--marked")
    assert marked["text"].startswith("note.txt|t|")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "NIF begins so:\n\n@prefix nif: <http://persistence.uni-leipzig.org/nlp2rdf/"
                 "ontologies/nif-core#> .\n\nHeron counts."),
        ("b.txt", "BioC has a <collection> of <document> and <passage> elements. Heron counts."),
        ("c.xml", "<!-- 1 --><collection><document><title>Heron</title></document></collection>"),
        ("d.jsonl", '{"id": "1", "text": "Heron counts.", "annotations": [], "data": {"y": 1}}'),
        ("e.json", '[{"id": "1", "text": "Heron.", "annotations": [{"start": 0, "end": 5}], '
                   '"data": {}}]'),
    ],
)  # fmt: skip
def test_a_text_that_looks_like_an_annotated_one_is_a_text(
    kglink: Kglink, demo: Path, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    (read,) = linked(kglink, tmp_path / name)
    assert "Heron" in read["text"]


def test_a_file_that_is_no_text_is_refused_by_name_and_named_in_a_folder(
    kglink: Kglink, demo: Path, folder: Path
) -> None:
    late = folder / "late.txt"
    late.write_bytes(b"Heron " * 20_000 + b"\x00")
    for name in ("e.bin", "late.txt"):
        ran = kglink("link", folder / name, code=1)
        assert f"{name} is binary, not text" in ran.err
    assert "late.txt is binary" in kglink("link", folder, code=1).err
    late.unlink()
    assert "1 file that is not text: e.bin" in kglink("link", folder).err
    wide = folder / "f 16.txt"
    wide.write_text("Heron " * 9, encoding="utf-16-le")
    told = " ".join(kglink("link", folder).err.split())
    assert "2 files that are not text: e.bin, f 16.txt" in told
    assert f"f 16.txt is UTF-16LE: iconv -f UTF-16LE -t UTF-8 '{wide}' > converted" in told


def test_several_sources_are_linked_in_the_order_given(
    kglink: Kglink, demo: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "z.txt").write_text("Heron went home.", encoding="utf-8")
    both = ("z.txt", "-", folder.name)
    out = tmp_path / "links.jsonl"
    kglink("link", *both, "-o", out, stdin="The lamp of Skerrow Light.")
    found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    inside = [one["id"] for one in linked(kglink, folder)]
    ids = [f"{folder.name}/{name}" for name in inside]
    assert [one["id"] for one in found] == ["z.txt", "-", *ids]
    assert found[0]["entities"][0]["text"] == "Heron"
    # What is written may be none of them, nor lie in one.
    for name in ("z.txt", f"{folder.name}/links.jsonl"):
        ran = kglink("link", *both, "-f", "jsonl", "-o", name, code=2)
        assert "source itself" in ran.err or "would be an input itself" in ran.err
    assert "gone does not exist" in kglink("link", "z.txt", "gone", code=1).err
    (tmp_path / "empty").mkdir()
    assert "empty holds no file" in kglink("link", "z.txt", "empty", code=1).err
    assert "cat z.txt b.txt |" in kglink("link", "z.txt", "b.txt", "--lines", code=2).err
    ran = kglink("link", "Heron", "counts", "lamps", code=2)
    assert "echo 'Heron counts lamps' | kglink link -" in ran.err


def test_input_names_the_adapter_and_its_settings_are_checked(
    kglink: Kglink, demo: Path, tmp_path: Path
) -> None:
    source = tmp_path / "page.html"
    source.write_text("<!doctype html><p>Heron", encoding="utf-8")
    (plain,) = linked(kglink, source, "--input", "text")
    assert plain["text"] == "<!doctype html><p>Heron"
    ran = kglink("link", source, "--input-set", "table=true", code=2)
    assert "no text adapter has a setting 'table'" in ran.err
    assert "tables" in ran.err
    assert "unknown KB adapter" in kglink("link", source, "--input", "nothing", code=2).err


def test_a_field_of_json_lines_is_the_text(kglink: Kglink, demo: Path, tmp_path: Path) -> None:
    source = tmp_path / "mails.jsonl"
    source.write_text(json.dumps({"id": "m1", "message": "Heron counts."}), encoding="utf-8")
    (record,) = linked(kglink, source, "--input-set", "text=message")
    assert (record["id"], record["text"]) == ("m1", "Heron counts.")
    mail = {"id": "m2", "head": {"subject": "Cornwall"}, "body": "Heron counts.", "note": None}
    source.write_text(json.dumps(mail), encoding="utf-8")
    (record,) = linked(kglink, source, "--input-set", "text=head.subject,note,body")
    assert record["text"] == "Cornwall\n\nHeron counts."
    assert record["meta"]["source"]["parts"] == [
        {"part": "head.subject", "start": 0, "end": 8},
        {"part": "body", "start": 10, "end": 23},
    ]


def test_the_language_is_said_and_can_be_told(kglink: Kglink, demo: Path) -> None:
    (german,) = linked(kglink, "-", stdin="Der Heron ist nicht auf der Insel.")
    assert german["meta"]["language"] == "de"
    (told,) = linked(kglink, "-", "--language", "nl", stdin="Heron")
    assert told["meta"]["language"] == "nl"
    assert "link.language" in kglink("link", "-", "--language", "German", stdin="x", code=2).err


def test_detectors_that_read_words_by_language_hear_of_it() -> None:
    from kglink.config import load_settings
    from kglink.plugins import load_registry
    from kglink.workspace.detectors import detector_settings

    registry = load_registry(only="builtin")
    flags = {"link.language": "de", "link.detector": ("dictionary",)}
    settings = load_settings(flags=flags, env={}).values.link
    own = detector_settings(registry, settings)["kglink/dictionary"]
    names = SampleNames(["Aber Falls"])
    german = registry.create("detector", "dictionary", own, names)
    assert german.detect("Aber gestern") == []
    assert registry.create("detector", "dictionary", {}, names).detect("Aber gestern")


def test_a_setting_of_the_workspace_is_told_from_one_of_the_detector(
    kglink: Kglink, demo: Path
) -> None:
    ran = kglink("link", "-", "--set", "link.found_by=names", stdin="Heron", code=2)
    assert "'link.found_by' is a setting of the workspace, not of a detector" in ran.err
    assert "KGLINK_LINK_FOUND_BY=names" in ran.err


def test_the_library_reads_texts_as_the_command_does(demo: Path, folder: Path) -> None:
    with Workspace.open(demo) as workspace:
        texts = list(workspace.texts(folder / "a.eml"))
        (document,) = workspace.link(texts)
    assert texts[0].meta["format"] == "mail"
    assert document.text == texts[0].text


def test_lines_of_a_file_are_answered_one_by_one(
    kglink: Kglink, demo: Path, tmp_path: Path
) -> None:
    source = tmp_path / "lines.txt"
    source.write_text('Heron\n\n{"id": "own", "text": "Turner"}\n{"text": "x"}\n', encoding="utf-8")
    records = linked(kglink, source, "--lines")
    assert [record["id"] for record in records] == ["1", "2", "own", "4"]
    output = tmp_path / "out.jsonl"
    kglink("link", source, "--lines", "-o", output)
    assert len(output.read_text(encoding="utf-8").splitlines()) == 4
    assert "redirect" in kglink("link", "-", "--lines", "-o", output, code=2).err
    ran = kglink("link", "-", "--lines", stdin=b"Heron\n\xff\n", code=1)
    assert "standard input, line 2" in ran.err


@pytest.mark.slow
def test_lines_are_answered_through_a_pipe_before_the_next_one_is_sent(demo: Path) -> None:
    command = [sys.executable, "-m", "kglink_cli", "-w", str(demo), "link", "-", "--lines"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as coprocess:
        assert coprocess.stdin
        assert coprocess.stdout
        for text in ("Heron counts the lamps.", "", "Mr Turner"):
            coprocess.stdin.write(f"{text}\n")
            coprocess.stdin.flush()
            assert json.loads(coprocess.stdout.readline())["text"] == text
        coprocess.stdin.close()
    assert coprocess.returncode == 0


def test_a_pipeline_of_ones_own_finds_the_mentions(
    kglink: Kglink, demo: Path, tmp_path: Path
) -> None:
    pytest.importorskip("spacy", reason="kglink[spacy] is not installed")
    pipeline = write_spacy_pipeline(tmp_path / "pipeline")
    command = ("-", "--detector", "spacy", "--set", f"folder={pipeline}")
    (record,) = linked(kglink, *command, stdin="Heron met Ada in Lantern Bay.")
    assert [one["text"] for one in record["entities"]] == ["Ada", "Lantern Bay"]
    assert "needs the setting 'folder'" in kglink(
        "link", "-", "--detector", "spacy", stdin="x", code=2
    ).err.replace("\n", " ")


def test_json_is_a_format_by_another_name(kglink: Kglink, demo: Path) -> None:
    asked = ("link", "-", "--json")
    told = kglink(*asked, stdin="Heron walks.").out
    assert told == kglink("link", "-", "--format", "json", stdin="Heron walks.").out
    assert json.loads(told)
    assert "Leave one" in kglink(*asked, "--format", "csv", stdin="Heron walks.", code=2).err
