"""`kglink doctor`: what stopped runs have left in a workspace, and what is missing there."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from conftest import Kglink
from rich.filesize import decimal

from kglink.workspace.doctor import _ago, _workspace_checks
from mediawiki_dumps import export, page
from rights import as_a_plain_user


def scratch_checks(kglink: Kglink, folder: Path, code: int = 0) -> list[dict[str, str]]:
    checks = json.loads(kglink("-w", folder, "doctor", "--json", code=code).out)
    return [check for check in checks if check["what"] == "scratch"]


def test_what_a_stopped_add_kb_has_left_is_listed_until_it_is_done(
    kglink: Kglink, tmp_path: Path
) -> None:
    folder, dump = tmp_path / "work", tmp_path / "dump.xml"
    kglink("init", folder)
    assert scratch_checks(kglink, folder) == []
    dump.write_text(export(page(1, "Sun", "A [[star]]."), page("x", "Star", "Hot.")))
    add = ("-w", folder, "add-kb", "wiki", dump, "--adapter", "wikipedia")
    kglink(*add, code=1)
    (left,) = (folder / ".scratch").iterdir()
    size = sum(path.stat().st_size for path in left.rglob("*") if path.is_file())
    assert 0 < size < 2000
    two_hours_ago = time.time() - 2.5 * 3600
    for path in (left, *left.rglob("*")):
        os.utime(path, (two_hours_ago, two_hours_ago))
    (check,) = scratch_checks(kglink, folder)
    assert check["state"] == "note"
    assert check["found"] == (
        f"{left} holds {decimal(size)} of an add-kb that is not done, last written 2 hours ago"
    )
    assert "Run the same add-kb again" in check["fix"]
    assert "delete the folder" in check["fix"]
    kglink(*add, "--on-error", "skip")
    assert scratch_checks(kglink, folder) == []
    assert not left.exists()


def test_the_kb_that_is_half_way_is_named(kglink: Kglink, tmp_path: Path) -> None:
    folder, source = tmp_path / "work", tmp_path / "kb.jsonl"
    kglink("init", folder)
    (folder / "kglink.toml").write_text("[ingest]\nbatch_size = 1\n")
    source.write_text('{"id": 1, "title": "a"}\n{"id": 2, "title": "b"}\n{"id": 3}\n')
    kglink("-w", folder, "add-kb", "half", source, code=1)
    (folder / ".scratch" / "0123").mkdir(parents=True)
    (check,) = scratch_checks(kglink, folder, code=1)  # the store's check names it as well
    assert "0 bytes" in check["found"]
    assert "less than a minute ago" in check["found"]
    assert "(half from kb.jsonl)" in check["fix"]
    shutil.rmtree(folder / ".scratch")
    for of_server in ("jobs", "reports"):  # the latter of an earlier version
        (folder / ".scratch" / of_server).mkdir(parents=True)
    assert scratch_checks(kglink, folder, code=1) == []


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "less than a minute"),
        (59, "less than a minute"),
        (60, "1 minute"),
        (7199, "1 hour"),
        (7200, "2 hours"),
        (3 * 86_400, "3 days"),
    ],
)
def test_ages(seconds: float, said: str) -> None:
    assert _ago(seconds) == said


def test_a_space_whose_kbs_are_gone_is_told(kglink: Kglink, tmp_path: Path) -> None:
    folder, table = tmp_path / "work", tmp_path / "stars.csv"
    kglink("init", folder)
    table.write_text("id,name\n1,Sun\n2,Vega\n")
    kglink("-w", folder, "add-kb", "stars", table)
    kglink("-w", folder, "build")
    assert "not in the store" not in kglink("-w", folder, "doctor").out
    (folder / "kglink.db").unlink()
    told = kglink("-w", folder, "doctor").out
    assert "not in the store: stars" in told
    assert "put the store (kglink.db) back" in told


def test_a_file_in_the_place_of_a_folder_is_told_beside_the_rest(
    kglink: Kglink, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    kglink("init", folder)
    (folder / "spaces").write_text("")
    told = kglink("-w", folder, "doctor", code=1).out
    assert "python" in told
    assert "Not a directory" in told


@pytest.mark.parametrize("name", ["manifest.json", "titles.utf8", "segments"])
def test_a_file_that_may_not_be_read_is_not_called_damaged(demo_copy: Path, name: str) -> None:
    (path, *_) = sorted((demo_copy / "spaces" / "default").rglob(name))
    path.chmod(0)
    checks = as_a_plain_user(lambda: list(_workspace_checks(demo_copy, trust=False)))
    path.chmod(0o700)
    bad = [check for check in checks if check.state == "bad"]
    assert [check.found for check in bad] == [f"default: {path} may not be read"]
    assert "Check the rights" in bad[0].fix
    assert not any("build" in check.fix for check in checks)
