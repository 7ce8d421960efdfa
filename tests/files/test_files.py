"""Files that are whole or not there, folders, locks, digests, manifests and mapped tables."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kglink.errors import DamagedFileError, NewerFileError
from kglink.files.atomic import (
    LockedError,
    atomic_file,
    atomic_folder,
    file_lock,
    hidden_beside,
    is_locked,
    recover_folder,
    replace_folder,
    sweep_drafts,
    write_atomically,
)
from kglink.files.digest import digest_of, file_digest, text_hash
from kglink.files.manifest import (
    FileInfo,
    ManifestPart,
    check_files,
    damaged_files,
    file_info,
    note_checked,
    read_json,
    read_manifest,
)
from kglink.files.tables import RowTable, RowWriter, StringTable, StringWriter, map_array

KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from kglink.files.atomic import atomic_file, atomic_folder
with (atomic_folder if sys.argv[2] == "folder" else atomic_file)(Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_fails_half_way_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    write_atomically(path, "old")

    def write_half() -> None:
        with atomic_file(path) as out:
            out.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["facts.json"]


def test_what_a_library_writes_for_its_user_alone_can_be_read_by_all(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        private = path.with_name("private")
        private.touch(mode=0o600)
        private.replace(path)

    with atomic_folder(tmp_path / "folder") as draft:
        write(draft / "file")
        (draft / "open").touch()
        before = (draft / "open").stat().st_ctime_ns
    # What is open already keeps its time of change, by which checked files are known again.
    assert (tmp_path / "folder" / "open").stat().st_ctime_ns == before
    usual = tmp_path / "usual"
    usual.touch()
    assert usual.stat().st_mode == (tmp_path / "folder" / "file").stat().st_mode


def test_the_mode_of_an_existing_file_is_kept_and_a_new_one_follows_the_umask(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secret"
    path.touch()
    path.chmod(0o600)
    write_atomically(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "fresh", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


def test_links_are_not_followed_and_special_files_not_replaced(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("mine")
    link.symlink_to(victim)
    write_atomically(link, "new")
    assert (victim.read_text(), link.read_text()) == ("mine", "new")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        write_atomically(tmp_path / "pipe", "new")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_name_of_255_bytes_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 127)
    write_atomically(path, "x")
    assert path.read_text() == "x"


def test_hidden_names_of_long_names_are_short_and_all_different(tmp_path: Path) -> None:
    assert hidden_beside(tmp_path / "out", "lock") == tmp_path / ".out.lock"
    names = ["ü" * 127, "ü" * 126 + "u", "x" * 201, "x" * 202]
    found = {hidden_beside(tmp_path / name, "0123456789abcdef.partial").name for name in names}
    assert len(found) == 4
    assert all(len(name.encode()) <= 255 for name in found)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_drafts_of_dead_processes_are_swept_and_those_of_living_ones_stay(
    tmp_path: Path, kind: str
) -> None:
    child = [sys.executable, "-c", KILLED_WHILE_WRITING, str(tmp_path / "out"), kind]
    assert subprocess.run(child, check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    (tmp_path / ".out.kglink-notes").touch()  # not a draft's name
    with atomic_file(tmp_path / "other") as out:
        out.write(b"x")
        assert sweep_drafts(tmp_path) == [left]
    assert names_in(tmp_path) == [".out.kglink-notes", "other"]


@pytest.mark.parametrize("is_swapped", [True, False])
def test_a_folder_is_replaced_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_swapped: bool
) -> None:
    if not is_swapped:
        monkeypatch.setattr("kglink.files.atomic.exchanged", lambda *_: False)
    for content in ("old", "new"):
        with atomic_folder(tmp_path / "model") as draft:
            (draft / content).touch()
    assert names_in(tmp_path) == ["model"]
    assert names_in(tmp_path / "model") == ["new"]


def test_a_folder_that_fails_half_way_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()

    def write_half() -> None:
        with atomic_folder(tmp_path / "model") as draft:
            (draft / "half").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert [path.name for path in tmp_path.rglob("*")] == ["model"]


def test_an_interrupted_replacement_is_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "draft").mkdir()
    (tmp_path / "model" / "old").touch()
    real = Path.rename

    def killed(self: Path, target: Path) -> Path:
        if target == tmp_path / "model":
            raise KeyboardInterrupt
        return real(self, target)

    with monkeypatch.context() as patched:
        patched.setattr("kglink.files.atomic.exchanged", lambda *_: False)
        patched.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            replace_folder(tmp_path / "draft", tmp_path / "model")
    assert not (tmp_path / "model").exists()
    recover_folder(tmp_path / "model")
    assert names_in(tmp_path / "model") == ["old"]


def test_threads_that_write_and_sweep_do_not_disturb_each_other(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for turn in range(30):
            with atomic_folder(tmp_path / "folder") as draft:
                (draft / "whole").touch()
            write_atomically(tmp_path / "file", f"{number} {turn}")
            sweep_drafts(tmp_path)

    with ThreadPoolExecutor(8) as workers:
        assert list(workers.map(work, range(8))) == [None] * 8
    assert names_in(tmp_path) == ["file", "folder"]
    assert names_in(tmp_path / "folder") == ["whole"]


def traced(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[str]:
    """What was synced and renamed, in order."""
    calls: list[str] = []
    fsync, replace, rename = os.fsync, Path.replace, Path.rename

    def named(descriptor: int) -> None:
        calls.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def moved(real: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
        def move(self: Path, target: Path) -> Path:
            calls.append(f"rename to {target.name}")
            return real(self, target)

        return move

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", named)
        patched.setattr(Path, "replace", moved(replace))
        patched.setattr(Path, "rename", moved(rename))
        act()
    return [call if ".kglink-" not in call else call.split(" ")[0] + " draft" for call in calls]


def test_content_is_synced_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    written = traced(monkeypatch, lambda: write_atomically(folder / "facts", "x"))
    assert written == ["sync draft", "rename to facts", "sync here"]
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "one").touch()
    moved = traced(monkeypatch, lambda: replace_folder(tmp_path / "draft", folder / "whole"))
    assert moved == ["sync one", "sync draft", "rename draft", "rename to whole", "sync here"]


def test_one_process_holds_a_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert not is_locked(lock)
    with file_lock(lock):
        assert is_locked(lock)
        with pytest.raises(LockedError), file_lock(lock):
            pass
        with pytest.raises(ZeroDivisionError), file_lock(lock, ZeroDivisionError(), wait=0.1):
            pass
    assert not is_locked(lock)
    with file_lock(lock, remove=True):
        pass
    assert names_in(tmp_path) == []


def test_a_planted_link_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic"), file_lock(tmp_path / "lock"):
        pass
    assert not (tmp_path / "victim").exists()


def test_digests_are_the_same_everywhere(tmp_path: Path) -> None:
    assert text_hash("münchen") == text_hash("mu\u0308nchen".replace("u\u0308", "ü"))
    assert text_hash("a") != text_hash("b")
    assert digest_of({"b": 1, "a": [2]}) == digest_of({"a": [2], "b": 1})
    assert len(digest_of("x", size=6)) == 12
    (tmp_path / "abc").write_text("abc")
    sha256 = file_digest(tmp_path / "abc", "sha256")
    assert sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


class Facts(ManifestPart):
    format: int = 1
    files: dict[str, FileInfo]


def test_a_manifest_tells_which_files_are_damaged(tmp_path: Path) -> None:
    for name in ("same", "changed", "longer", "gone"):
        (tmp_path / name).write_text("1234")
    facts = Facts(files={path.name: file_info(path) for path in tmp_path.iterdir()})
    note_checked(tmp_path, facts.files)
    (tmp_path / "changed").write_text("4321")
    (tmp_path / "longer").write_text("12345")
    (tmp_path / "gone").unlink()

    for thorough in (False, True):
        found = damaged_files(tmp_path, facts.files, thorough=thorough)
        assert sorted(path.name for path in found) == ["changed", "gone", "longer"]
    with pytest.raises(DamagedFileError, match="longer: missing or of the wrong size"):
        check_files(tmp_path, {"longer": facts.files["longer"]})
    with pytest.raises(DamagedFileError, match="changed: its content is not what was written"):
        check_files(tmp_path, {"changed": facts.files["changed"]})


def test_files_are_checked_where_nothing_can_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "facts").write_text("1234")
    facts = {"facts": file_info(tmp_path / "facts")}

    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("kglink.files.manifest.write_atomically", read_only)
    assert damaged_files(tmp_path, facts) == []
    (tmp_path / "facts").write_text("4321")
    assert damaged_files(tmp_path, facts) == [tmp_path / "facts"]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('{"format": 2, "files": {}, "new": 1}', NewerFileError),
        ('{"files": {}, "unknown": 1}', DamagedFileError),
        ("[1]", DamagedFileError),
        ("{", DamagedFileError),
        ("[" * 100_000, DamagedFileError),
        ("\ud800", DamagedFileError),
    ],
    ids=["newer", "another-field", "no-object", "cut-off", "nested", "no-utf8"],
)
def test_a_bad_manifest_is_named(tmp_path: Path, content: str, error: type[Exception]) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(content.encode(errors="surrogatepass"))
    with pytest.raises(error, match=r"facts\.json"):
        read_manifest(Facts, path, newest=1)
    with pytest.raises(DamagedFileError, match="No such file"):
        read_json(tmp_path / "none")


STRINGS = ["", "Ünder", "\N{GRINNING FACE}", ""]


def written(folder: Path) -> Path:
    with StringWriter(folder / "names") as writer:
        for text in STRINGS:
            writer.add(text)
    return folder / "names"


def test_tables_hold_what_was_written(tmp_path: Path) -> None:
    table = StringTable(written(tmp_path))
    assert list(table) == STRINGS == [table[at] for at in range(len(table))]
    with RowWriter(tmp_path / "rows", np.int32) as writer:
        for row in ([1, 2], [], [3]):
            writer.add(row)
    rows = RowTable(tmp_path / "rows", np.int32)
    assert [row.tolist() for row in rows] == [[1, 2], [], [3]]
    assert rows.with_any(2, 4).tolist() == [0, 2]


@pytest.mark.parametrize(
    "offsets", [[0, 0, 6, 10, 11], [0, 7, 6, 10, 10], [1, 0, 6, 10, 10], [], [[0, 10]], [0.0, 10.0]]
)
def test_offsets_that_lead_elsewhere_are_found_on_opening(
    tmp_path: Path, offsets: list[object]
) -> None:
    stem = written(tmp_path)
    np.save(stem.with_suffix(".offsets.npy"), np.array(offsets))
    with pytest.raises(DamagedFileError, match=r"names\.offsets"):
        StringTable(stem)


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY\x01\x00\x05\x00{{{{{", b"PK\x03\x04", b"\x80\x04N."]
)
def test_what_is_no_array_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"a\.npy"):
        map_array(tmp_path / "a.npy")
