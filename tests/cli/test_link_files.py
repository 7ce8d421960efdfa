"""The files that `kglink link` reads and writes: resumed, refused, skipped, never mixed up."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, TextIO

import pytest
from conftest import Kglink

from kglink.errors import SourceError
from kglink.files.atomic import file_lock
from kglink.records import EntityId, LinkedDocument
from kglink.workspace import Workspace
from kglink_cli.outputs import opened_draft
from kglink_kbs.texts import html
from kglink_plugins.exporters.html import HtmlExporter
from kglink_plugins.exporters.json_records import JsonlExporter
from rights import as_a_plain_user

Records = list[dict[str, Any]]
#: Ids that come twice: only their number tells where a run stopped.
TEXTS: Records = [{"id": f"d{at % 3}", "text": f"Heron saw lamp {at}."} for at in range(6)]


def write_jsonl(path: Path, records: Records) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def texts_of(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def hidden_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A file of six documents."""
    return write_jsonl(tmp_path / "texts.jsonl", TEXTS)


Interrupt = Callable[..., Path]


@pytest.fixture
def interrupt(kglink: Kglink, monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """Stop `kglink link SOURCE -o OUTPUT` after two documents; the draft that is left."""

    def stop(source: str | Path, output: Path, stdin: str = "") -> Path:
        def export(self: JsonlExporter, documents: Iterable[LinkedDocument], out: TextIO) -> None:
            for at, document in enumerate(documents):
                if at == 2:
                    raise OSError(28, "No space left on device")
                whole(self, [document], out)

        whole = JsonlExporter.export
        with monkeypatch.context() as patched:
            patched.setattr(JsonlExporter, "export", export)
            kglink("link", source, "-o", output, stdin=stdin, code=1)
        assert not output.exists()
        (draft,) = output.parent.glob(f".{output.name}.*.partial")
        return draft

    return stop


def test_a_run_goes_on_after_as_many_documents_as_are_written(
    kglink: Kglink, demo: Path, texts: Path, interrupt: Interrupt, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    draft = interrupt(texts, output)
    kept = draft.read_bytes()
    assert "after 2 documents" in kglink("link", texts, "-o", output).err
    assert texts_of(output) == [record["text"] for record in TEXTS]
    assert output.read_bytes().startswith(kept)
    assert hidden_files(tmp_path) == []


def test_a_draft_that_another_run_removed_hides_no_error(tmp_path: Path) -> None:
    def fail() -> None:
        with opened_draft(tmp_path / "out.jsonl", "made by") as (draft, _):
            draft.unlink()
            raise ValueError("the reason")

    with pytest.raises(ValueError, match="the reason"):
        fail()


def test_texts_that_are_written_help_the_others_of_a_run_that_goes_on(
    kglink: Kglink,
    demo: Path,
    texts: Path,
    interrupt: Interrupt,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KGLINK_LINK_CLUSTERER", "kglink/mentions")
    whole = kglink("link", texts, "-o", tmp_path / "whole.jsonl").err
    (told,) = re.findall(r"changed the answer of [0-9]+ of ([0-9]+) mentions", whole)
    output = tmp_path / "out.jsonl"
    interrupt(texts, output)
    resumed = kglink("link", texts, "-o", output).err
    assert "after 2 documents" in resumed
    assert f"of {told} mentions" in resumed
    assert output.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize(
    "forge",
    [
        lambda record: {"id": record["id"]},
        lambda record: record | {"text": 5},
        lambda record: record | {"entities": [{"start": 0, "end": 5, "text": "forged"}]},
        lambda record: record | {"entities": 7},
        lambda record: record["id"],
    ],
)
def test_a_forged_line_is_not_taken_as_done(
    kglink: Kglink,
    demo: Path,
    texts: Path,
    interrupt: Interrupt,
    tmp_path: Path,
    forge: Callable[[Any], object],
) -> None:
    output = tmp_path / "out.jsonl"
    draft = interrupt(texts, output)
    first, second = draft.read_text(encoding="utf-8").splitlines()
    draft.write_text(f"{first}\n{json.dumps(forge(json.loads(second)))}\n", encoding="utf-8")
    assert "after 1 document of" in kglink("link", texts, "-o", output).err
    assert texts_of(output) == [record["text"] for record in TEXTS]
    assert "forged" not in output.read_text(encoding="utf-8")


def test_a_line_with_the_text_of_another_document_stops_the_run(
    kglink: Kglink, demo: Path, texts: Path, interrupt: Interrupt, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    draft = interrupt(texts, output)
    first, second = (json.loads(line) for line in draft.read_text("utf-8").splitlines())
    forged = {**second, "text": "Another text", "entities": []}
    draft.write_text(f"{json.dumps(first)}\n{json.dumps(forged)}\n", encoding="utf-8")
    ran = kglink("link", texts, "-o", output, code=2)
    assert "another text now" in ran.err


def test_a_draft_that_others_may_write_to_is_begun_anew(
    kglink: Kglink, demo: Path, texts: Path, interrupt: Interrupt, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    interrupt(texts, output).chmod(0o666)
    assert "resumed" not in kglink("link", texts, "-o", output).err
    draft = interrupt(texts, tmp_path / "two.jsonl")
    (tmp_path / "linked").hardlink_to(draft)
    assert "resumed" not in kglink("link", texts, "-o", tmp_path / "two.jsonl").err
    assert texts_of(output) == texts_of(tmp_path / "two.jsonl")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_draft_of_somebody_else_is_begun_anew(
    kglink: Kglink, demo: Path, texts: Path, interrupt: Interrupt, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    os.chown(interrupt(texts, output), 12345, 12345)
    assert "resumed" not in kglink("link", texts, "-o", output).err
    assert output.stat().st_uid == 0


def test_a_changed_file_begins_anew(
    kglink: Kglink, demo: Path, texts: Path, interrupt: Interrupt, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    interrupt(texts, output)
    changed = [record | {"text": f"Amber, {record['text']}"} for record in TEXTS]
    write_jsonl(texts, changed)
    assert "resumed" not in kglink("link", texts, "-o", output).err
    assert texts_of(output) == [record["text"] for record in changed]
    assert hidden_files(tmp_path) == []


def test_a_verdict_on_an_overlap_begins_anew(
    kglink: Kglink, demo_copy: Path, texts: Path, interrupt: Interrupt, tmp_path: Path
) -> None:
    output, whole = tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    draft = interrupt(texts, output).read_text(encoding="utf-8")
    one = next(
        link for line in draft.splitlines() for link in json.loads(line)["entities"] if link["also"]
    )
    pair = [EntityId(named["kb"], named["key"]) for named in (one, one["also"][0])]
    with Workspace.open(demo_copy) as workspace:
        workspace.store.set_verdict(pair[0], pair[1], "wrong")
    assert "resumed" not in kglink("link", texts, "-o", output).err
    kglink("link", texts, "-o", whole)
    assert output.read_bytes() == whole.read_bytes()
    assert not output.read_text(encoding="utf-8").startswith(draft)


def test_standard_input_is_known_by_its_content(
    kglink: Kglink, demo: Path, interrupt: Interrupt, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    given = "".join(json.dumps(record) + "\n" for record in TEXTS)
    interrupt("-", output, given)
    assert "after 2 documents" in kglink("link", "-", "-o", output, stdin=given).err
    assert len(texts_of(output)) == 6
    output.unlink()
    interrupt("-", output, given)
    other = given.replace("Heron", "Amber")
    assert "resumed" not in kglink("link", "-", "-o", output, stdin=other).err
    assert not [text for text in texts_of(output) if "Heron" in text]


def test_a_folder_is_known_by_its_files(
    kglink: Kglink, demo: Path, interrupt: Interrupt, tmp_path: Path
) -> None:
    folder, output = tmp_path / "in", tmp_path / "out.jsonl"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.txt").write_text(f"Heron {name}", encoding="utf-8")
    interrupt(folder, output)
    assert "after 2 documents" in kglink("link", folder, "-o", output).err
    output.unlink()
    interrupt(folder, output)
    (folder / "a.txt").write_text("Amber a", encoding="utf-8")
    os.utime(folder / "a.txt", ns=(1, 1))
    assert "resumed" not in kglink("link", folder, "-o", output).err
    assert texts_of(output) == ["Amber a", "Heron b", "Heron c"]


@pytest.mark.parametrize("damage", [b'{"id": "d2", "te\n{"id": "d0"}\n', b"[]\n", b"\xff\n"])
def test_a_damaged_line_of_a_draft_ends_it(
    kglink: Kglink, demo: Path, texts: Path, interrupt: Interrupt, tmp_path: Path, damage: bytes
) -> None:
    output = tmp_path / "out.jsonl"
    draft = interrupt(texts, output)
    draft.write_bytes(draft.read_bytes() + damage)
    assert "after 2 documents" in kglink("link", texts, "-o", output).err
    assert texts_of(output) == [record["text"] for record in TEXTS]


def test_a_draft_of_other_documents_is_refused(
    kglink: Kglink, demo: Path, texts: Path, interrupt: Interrupt, tmp_path: Path
) -> None:
    draft = interrupt(texts, tmp_path / "out.jsonl")
    draft.write_bytes(draft.read_bytes().replace(b'"id": "d1"', b'"id": "x1"'))
    ran = kglink("link", texts, "-o", tmp_path / "out.jsonl", code=2)
    assert "document 2 of the interrupted run was 'x1', and is 'd1' now" in ran.err


def test_a_second_process_is_refused(
    kglink: Kglink, demo: Path, texts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    with file_lock(tmp_path / ".out.jsonl.lock"):
        ran = kglink("link", texts, "-o", output, code=2)
    assert f"{output} is being written by another process" in ran.err
    assert not output.exists()
    kglink("link", texts, "-o", output)
    assert hidden_files(tmp_path) == []


def test_the_source_is_never_overwritten(kglink: Kglink, demo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    own = folder / "own.txt"
    own.write_text("Heron", encoding="utf-8")
    (tmp_path / "other.txt").symlink_to(own)
    for output in (own, tmp_path / "other.txt", folder / ".." / "in" / "own.txt"):
        assert "is the source itself" in kglink("link", own, "-o", output, code=2).err
    ran = kglink("link", folder, "-o", folder / "new.txt", code=2)
    assert "would be an input itself" in ran.err
    assert own.read_text(encoding="utf-8") == "Heron"
    assert [path.name for path in folder.iterdir()] == ["own.txt"]


def test_an_output_that_cannot_be_written_is_told_before_the_space_is_built(
    kglink: Kglink, demo_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(*_: object, **__: object) -> None:
        pytest.fail("the space was opened before the output")

    monkeypatch.setattr("kglink_cli.link.ensure_space", built)
    missing = tmp_path / "no" / "out.jsonl"
    ran = kglink("link", "-", "-o", missing, stdin="Heron", code=2)
    assert f"cannot write {missing}" in ran.err
    assert "partial" not in ran.err
    assert not missing.parent.exists()
    too_long = tmp_path / f"{'x' * 300}.html"
    ran = kglink("link", "-", "-o", too_long, stdin="Heron", code=2)
    assert f"cannot write {too_long}" in ran.err.replace("\n", "")
    assert "a shorter name" in ran.err


@pytest.mark.parametrize("ending", [".jsonl", ".html", ".jsonl.gz"])
def test_a_name_that_the_disk_takes_is_written(
    kglink: Kglink, demo: Path, texts: Path, tmp_path: Path, ending: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    output = folder / (("ü" * 127)[: 127 - len(ending) // 2] + ending)
    assert 250 <= len(output.name.encode()) <= 255
    kglink("link", texts, "-o", output, "--format", "html" if ending == ".html" else "jsonl")
    assert list(folder.iterdir()) == [output]


def test_a_draft_that_cannot_be_resumed_is_removed(
    kglink: Kglink, demo: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: HtmlExporter, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        out.write("<!doctype html>")
        draft, lock = hidden_files(tmp_path)
        assert draft.startswith(".out.html.kglink-")
        assert lock == ".out.html.lock"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(HtmlExporter, "export", stop)
    output = tmp_path / "out.html"
    output.write_text("before", encoding="utf-8")
    assert "No space left" in kglink("link", texts, "-o", output, code=1).err
    assert output.read_text(encoding="utf-8") == "before"
    assert hidden_files(tmp_path) == []


def test_bad_files_of_a_folder_are_skipped_and_counted(
    kglink: Kglink, demo: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_bytes("café".encode("latin-1"))
    (folder / "b.txt.gz").write_bytes(gzip.compress(b"Heron" * 100)[:-12])
    (folder / "c.txt").write_text("Heron", encoding="utf-8")
    assert "a.txt, byte 0xe9 at byte 3" in kglink("link", folder, "-f", "jsonl", code=1).err
    ran = kglink("link", folder, "-f", "jsonl", "--on-error", "skip")
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == ["c.txt"]
    (skipped,) = (line for line in ran.err.splitlines() if line.startswith("skipped"))
    assert skipped.endswith("2 bad records: a.txt, byte 0xe9 at byte 3: not valid UTF-8")
    (folder / "a.txt").write_text("an [[open mark", encoding="utf-8")
    ran = kglink("link", folder, "-f", "jsonl", "--marked", "--on-error", "skip")
    assert "2 bad records" in ran.err


def test_folders_that_may_not_be_read_are_passed_over_where_asked(
    kglink: Kglink, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kglink_cli.main.heed_interrupts", lambda: None)  # for the main thread
    folder = tmp_path / "in"
    for name in ("a.txt", "lost+found/b.txt", "shut/c.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("Heron", encoding="utf-8")
    (folder / "lost+found").chmod(0)
    (folder / "shut").chmod(0o444)
    ran = as_a_plain_user(lambda: kglink("link", folder, "-f", "jsonl", code=1))
    assert "cannot read lost+found/: Permission denied" in ran.err
    assert "--on-error skip" in ran.err
    ran = as_a_plain_user(lambda: kglink("link", folder, "-f", "jsonl", "--on-error", "skip"))
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == ["a.txt"]
    assert "2 bad records" in ran.err


def test_a_reader_that_fails_fails_on_its_text_alone(
    kglink: Kglink, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise AttributeError("no such thing")

    monkeypatch.setattr(html, "html_text", fail)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.html").write_text("<html>Heron", encoding="utf-8")
    (folder / "b.txt").write_text("Heron", encoding="utf-8")
    ran = kglink("link", folder, "-f", "jsonl", "--on-error", "skip")
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == ["b.txt"]
    assert "1 bad record: a.html: a.html: kglink/html failed with AttributeError: no" in ran.err
    assert "kglink/html failed" in kglink("link", folder, code=1).err
    ran = kglink(*("link", "-", "--lines", "--input", "html", "--on-error", "skip"), stdin="a\nb")
    assert "2 bad records: standard input, line 1: line 1: kglink/html failed" in ran.err
    with pytest.raises(SourceError) as raised:
        kglink("--debug", "link", folder)
    assert isinstance(raised.value.__cause__, AttributeError)


def test_offsets_of_given_spans(kglink: Kglink, demo: Path) -> None:
    given = json.dumps({"id": "x", "text": "😀 Heron", "entities": [{"start": 3, "end": 8}]})
    ran = kglink("link", "-", "-f", "jsonl", stdin=given, code=1)
    assert "--input-set offsets=utf16 or bytes" in ran.err
    ran = kglink("link", "-", "-f", "jsonl", "--input-set", "offsets=utf16", stdin=given)
    (one,) = json.loads(ran.out)["entities"]
    assert (one["start"], one["text"]) == (2, "Heron")


@pytest.mark.parametrize("option", ["--set", "--input-set"])
def test_settings_are_checked_though_all_mentions_are_given(
    kglink: Kglink, demo: Path, option: str
) -> None:
    ran = kglink("link", "-", "--marked", option, "nonsense=1", stdin="[[Heron]]", code=2)
    assert "setting 'nonsense'" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "out.xml"], "out.xml names no format"),
        (["--kb", ","], "',' holds no name"),
        (["--on-error", "ignore"], "ingest.on_error"),
    ],
)
def test_refused_calls(kglink: Kglink, demo: Path, arguments: list[str], said: str) -> None:
    assert said in kglink("link", "-", *arguments, stdin="Heron", code=2).err


def test_endings_and_named_formats(kglink: Kglink, demo: Path, tmp_path: Path) -> None:
    for name in ("out.txt", "out.log", "out"):
        kglink("link", "-", "-o", tmp_path / name, stdin="Heron")
        assert "1 mention," in (tmp_path / name).read_text(encoding="utf-8")
    kglink("link", "-", "-o", tmp_path / "out.xml", "-f", "json", stdin="Heron")
    assert json.loads((tmp_path / "out.xml").read_text(encoding="utf-8"))[0]["id"] == "-"
    kglink("link", "-", "-o", tmp_path / "out.jsonl.gz", "-f", "jsonl", stdin="Heron")
    with gzip.open(tmp_path / "out.jsonl.gz", "rt", encoding="utf-8") as lines:
        assert [json.loads(line)["text"] for line in lines] == ["Heron"]
