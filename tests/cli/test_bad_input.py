"""Every bad input of a command: one message that says what, where and the fix; nothing lost."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Kglink

GOOD = '{"id": "a", "title": "Alpha", "description": "First."}\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with one KB."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KGLINK_WORKSPACE", raising=False)
    (tmp_path / "kglink.toml").write_text("", encoding="utf-8")
    return tmp_path


def entity_counts(kglink: Kglink) -> list[int]:
    return [info["entities"] for info in json.loads(kglink("kbs", "--json").out)]


BAD_SOURCES = {
    "empty": (b"", "empty"),
    "binary": (b"\x00\x01\x02" * 50, ""),
    "truncated gzip": (gzip.compress(GOOD.encode() * 2000)[:-200], "gz"),
    "latin-1": ('{"id": "a", "title": "café"}\n'.encode("latin-1"), "UTF-8"),
    "utf-16": (GOOD.encode("utf-16-le"), "UTF-16"),
    "malformed line": ((GOOD + '{"id": "b", "title": \n').encode(), "line 2"),
    "not an object": ((GOOD + "[1]\n").encode(), "line 2"),
    "no title": ((GOOD + '{"id": "b", "description": "x"}\n').encode(), "line 2"),
    "no id": ((GOOD + '{"title": "Beta"}\n').encode(), "line 2"),
    "duplicate key": ((GOOD + GOOD).encode(), "'a'"),
    "wrong type": ((GOOD + '{"id": "b", "title": ["x"]}\n').encode(), "line 2"),
    "lone surrogate": ((GOOD + '{"id": "b", "title": "\\ud800"}\n').encode(), "line 2"),
}


@pytest.mark.parametrize("name", BAD_SOURCES)
def test_a_bad_source_is_one_message_and_a_clean_store(
    kglink: Kglink, here: Path, name: str
) -> None:
    content, said = BAD_SOURCES[name]
    source = here / "source.jsonl"
    source.write_bytes(content)
    ran = kglink("add-kb", "kb", source, "--adapter", "jsonl", code=1)
    assert ran.err.count("error") >= 1
    assert said in ran.err
    source.write_text(GOOD, encoding="utf-8")
    kglink("add-kb", "kb", source)
    assert entity_counts(kglink) == [1]


@pytest.mark.parametrize(
    "name", sorted(set(BAD_SOURCES) - {"empty", "binary", "truncated gzip", "utf-16", "latin-1"})
)
def test_bad_records_can_be_skipped_and_are_counted(kglink: Kglink, here: Path, name: str) -> None:
    source = here / "source.jsonl"
    source.write_bytes(BAD_SOURCES[name][0])
    ran = kglink("add-kb", "kb", source, "--on-error", "skip", "--adapter", "jsonl", "--json")
    summary = json.loads(ran.out)
    assert summary["added"] == 1
    assert sum(summary["skipped"].values()) == 1


def test_a_line_of_50_mb(kglink: Kglink, here: Path) -> None:
    source = here / "source.jsonl"
    with source.open("w", encoding="utf-8") as out:
        out.write(GOOD + '{"id": "b", "title": "B", "description": "' + "x" * 50 * 2**20 + '"}\n')
        out.write('{"id": "c", "title": "Gamma"}\n')
    assert "line 2" in kglink("add-kb", "kb", source, code=1).err
    assert json.loads(
        kglink("add-kb", "kb", source, "--on-error", "skip", "--json").out
    )["added"] == 2  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["add-kb", "kb", "missing.jsonl"], "does not exist", 1),
        (["add-kb", "kb", "https://example.org/birds.csv"], "kglink fetches nothing", 1),
        (["add-kb", "My KB", "good.jsonl"], "my_kb", 2),
        (["add-kb", "kb", "good.jsonl", "--adapter", "jsnl"], "kglink/jsonl", 2),
        (["add-kb", "kb", "good.jsonl", "--set", "titel=x"], "title", 2),
        (["add-kb", "kb", "good.jsonl", "--set", "title"], "key=value", 2),
        (["add-kb", "kb", "good.jsonl", "--split", "tests"], "train, dev, test", 2),
        (["add-kb", "kb", "good.jsonl", "--on-error", "ask"], "stop", 2),
        (["add-kb", "kb", "good.jsonl", "--links-to", "nowhere"], "nowhere", 2),
        (["add-kb", "kb"], "source", 2),
        (["link", "good.jsonl", "--format", "pdf"], "kglink/table", 2),
        (["link", "missing.txt"], "missing.txt does not exist", 1),
        (["link", "good.jsonl"], "add-kb", 1),
        (["link", "Heron's lamp"], """echo 'Heron'"'"'s lamp' | kglink link -""", 2),
        (["link", "-", "--top-k", "0"], "link.top_k", 2),
        (["link", "-", "--threshold", "2"], "link.threshold", 2),
        (["kbs", "show", "nothing"], "nothing", 2),
        (["kbs", "remove", "nothing"], "nothing", 2),
        (["overlap", "a"], "two KBs", 2),
        (["overlap", "a", "b"], "'a'", 2),
        (["overlap", "--threshold", "1.5"], "overlap.threshold", 2),
        (["search", "x"], "add-kb", 1),
        (["build"], "add-kb", 1),
        (["build", "--index", "kglink/flut"], "kglink/flat", 2),
        (["build", "--space", "../x"], "space.name", 2),
        (["eval", "--docs", "nothing"], "nothing", 2),
        (["frobnicate"], "No such command", 2),
    ],
)
def test_bad_calls(kglink: Kglink, here: Path, arguments: list[str], said: str, code: int) -> None:
    (here / "good.jsonl").write_text(GOOD, encoding="utf-8")
    ran = kglink(*arguments, code=code)
    assert said in ran.err.replace("\n", " ")
    assert ran.out == ""


def test_an_overlap_of_a_kb_with_itself(kglink: Kglink, here: Path) -> None:
    (here / "good.jsonl").write_text(GOOD, encoding="utf-8")
    kglink("add-kb", "kb", "good.jsonl")
    assert "itself" in kglink("overlap", "kb", "kb", code=2).err


def test_a_table_of_windows_is_read_by_its_encoding(kglink: Kglink, here: Path) -> None:
    table, text = here / "katalog.csv", here / "mail.txt"
    table.write_bytes("id;name\n1;Säge\n2;Brühe\n".encode("cp1252"))
    text.write_bytes("Die Brühe kocht.\n".encode("cp1252"))
    told = " ".join(kglink("add-kb", "k", table, code=1).err.split())
    assert "katalog.csv, line 2, byte 0xe4 at byte 11: not valid UTF-8" in told
    assert "--encoding cp1252" in told
    kglink("add-kb", "k", table, "--encoding", "cp1252")
    assert "--encoding cp1252" in " ".join(kglink("link", text, code=1).err.split())
    (linked,) = json.loads(kglink("link", text, "--encoding", "cp1252", "--json").out)
    assert [(one["text"], one["key"]) for one in linked["entities"]] == [("Brühe", "2")]
    for name in ("base64", "idna", "cp9999"):
        for command in (("add-kb", "k"), ("link",)):
            ran = kglink(*command, table, "--encoding", name, code=2)
            assert f"{name!r} is no encoding of text files" in ran.err


def test_texts_that_are_no_texts(kglink: Kglink, demo: Path, tmp_path: Path) -> None:
    latin = tmp_path / "latin.txt"
    latin.write_bytes("café".encode("latin-1"))
    ran = kglink("link", latin, code=1)
    assert "byte 3" in ran.err
    assert f"iconv -f WINDOWS-1252 -t UTF-8 {latin} > converted" in ran.err
    wide = tmp_path / "a b.csv"
    wide.write_text("id,title\n1,a\n", encoding="utf-16-le")
    for command in (("link",), ("add-kb", "wide")):
        told = " ".join(kglink(*command, wide, code=1).err.split())
        assert f"iconv -f UTF-16LE -t UTF-8 '{wide}' > converted" in told
    empty = tmp_path / "folder"
    empty.mkdir()
    assert "holds no file" in kglink("link", empty, code=1).err
    assert "character" in kglink("link", "-", "--marked", stdin="an [[open mark", code=1).err
    (tmp_path / "marked").mkdir()
    (tmp_path / "marked" / "a.txt").write_text("An [[owl]].")
    (tmp_path / "marked" / "b.txt").write_text("An [[open mark.")
    assert (
        "b.txt, character 4 (line 1)"
        in kglink(*("link", tmp_path / "marked", "--marked"), code=1).err
    )
    spans = {"id": "x", "text": "Heron", "entities": [{"start": 0, "end": 99}]}
    assert "line 1" in kglink("link", "-", stdin=json.dumps(spans), code=1).err
    entities = tmp_path / "entities.jsonl"
    entities.write_text(GOOD, encoding="utf-8")
    assert "add-kb" in kglink("link", entities, code=2).err
    missing = tmp_path / "no" / "out.jsonl"
    assert "cannot write" in kglink("link", "-", "-o", missing, stdin="Heron", code=2).err


def test_an_empty_text_has_no_links(kglink: Kglink, demo: Path) -> None:
    (record,) = json.loads(kglink("link", "-", "-f", "json", stdin="").out)
    assert record["text"] == ""
    assert record["entities"] == []


def test_a_store_of_a_newer_schema(kglink: Kglink, here: Path) -> None:
    (here / "good.jsonl").write_text(GOOD, encoding="utf-8")
    kglink("add-kb", "kb", "good.jsonl")
    with sqlite3.connect(here / "kglink.db") as database:
        database.execute("update kglink_schema set version_num = '9999'")
    database.close()
    ran = kglink("kbs", code=1)
    assert "newer" in ran.err
    assert "9999" in ran.err


def test_a_store_that_is_no_database(kglink: Kglink, here: Path) -> None:
    (here / "kglink.db").write_bytes(b"not a database at all, only some text" * 100)
    assert "kglink.db" in kglink("kbs", code=1).err


def test_a_plugin_variable_that_names_nothing(
    kglink: Kglink, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_PLUGINS", "no-such-distribution")
    assert "KGLINK_PLUGINS" in kglink("kbs", code=2).err


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    # A shell that runs the tests in the background makes its children deaf to Ctrl-C.
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{hearing}; from kglink_cli.main import run; run()"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={key: value for key, value in os.environ.items() if key != "KGLINK_WORKSPACE"},
    )  # fmt: skip


def many(folder: Path, name: str, count: int) -> None:
    with (folder / name).open("w", encoding="utf-8") as out:
        for at in range(count):
            out.write(json.dumps({"id": f"{at:06}", "title": f"Thing {at}"}) + "\n")


@pytest.mark.slow
def test_two_processes_that_add_kbs_at_once(kglink: Kglink, here: Path) -> None:
    for name in ("one", "two"):
        many(here, f"{name}.jsonl", 20_000)
    running = [start(here, "add-kb", name, f"{name}.jsonl") for name in ("one", "two")]
    for process in running:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert entity_counts(kglink) == [20_000] * 2


@pytest.mark.slow
def test_ctrl_c_in_the_middle_stops_with_one_message_and_is_resumed(
    kglink: Kglink, here: Path
) -> None:
    many(here, "many.jsonl", 300_000)
    process = start(here, "add-kb", "many", "many.jsonl")
    log = here / "kglink.db-wal"
    deadline = time.monotonic() + 60
    while _size(log) < 2**20 and time.monotonic() < deadline:  # Some batches are committed.
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert "run the same command to go on" in err
    assert "Traceback" not in err
    assert "(unfinished)" in kglink("kbs").out
    ran = json.loads(kglink("add-kb", "many", "many.jsonl", "--json").out)
    assert ran["resumed_from"] > 0
    assert (ran["added"], ran["unchanged"]) == (300_000, 0)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_a_kb_that_broke_off_does_not_block_the_others(kglink: Kglink, demo_copy: Path) -> None:
    half = demo_copy / "half.jsonl"
    half.write_text(GOOD * 1 + '{"id": "b", "title": \n', encoding="utf-8")
    kglink("add-kb", "half", half, "--adapter", "jsonl", code=1)
    ran = kglink("link", "-", "-f", "jsonl", stdin="Heron counts the lamps.")
    assert json.loads(ran.out)["entities"]


def test_a_workspace_in_a_folder_with_odd_signs(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "we?ird #1 100% ü 🚀"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("KGLINK_WORKSPACE", raising=False)
    (folder / "good.jsonl").write_text(GOOD, encoding="utf-8")
    kglink("add-kb", "kb", "good.jsonl")
    assert (folder / "kglink.db").exists()
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_passwords_are_shown_to_nobody(
    kglink: Kglink, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_STORE_URL", "postgresql+psycopg://bob:s3cret@localhost/x")
    ran = kglink("settings", "--json")
    assert "s3cret" not in ran.out
    assert "bob:***@localhost" in ran.out
    assert "s3cret" not in kglink("settings").out


def test_eval_of_a_split_without_documents_and_settings_of_kbs(
    kglink: Kglink, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_LINK_KBS", "lanternfall")
    result = json.loads(kglink("eval", "--docs", "docs", "--split", "", "--json").out)
    assert result["kbs"] == ["lanternfall"]
    assert set(result["metrics"]["kb"]) == {"lanternfall"}


def test_equals_are_not_sure(kglink: Kglink, here: Path) -> None:
    rows = [{"id": f"j{at}", "title": "John Smith"} for at in range(50)]
    (here / "johns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    kglink("add-kb", "johns", "johns.jsonl")
    (record,) = json.loads(kglink("link", "-", "-f", "json", stdin="I met John Smith.").out)
    assert record["entities"][0]["nil"] is True


@pytest.mark.parametrize(("arguments", "code"), [(["recipes"], 1), (["recipes", "small"], 0)])
def test_a_reader_that_goes_away_is_no_traceback(arguments: list[str], code: int) -> None:
    """More than a buffer of output fails within the command, less when Python ends."""
    command = [sys.executable, "-m", "kglink_cli", *arguments]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered
    ) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.close()
        assert ran.stderr.read() == b""
    assert ran.returncode == code
