"""The compiled aliases on disk: used, damaged, forgotten, refused; and bad settings."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError

from alias_names import Names
from kglink.config import setting_descriptions
from kglink.errors import StoreError
from kglink.files.digest import user_key
from kglink.files.manifest import file_info
from kglink.records import Span
from kglink_plugins.detectors.dictionary import cache
from kglink_plugins.detectors.dictionary.finder import dictionary_detector
from kglink_plugins.plugin import DictionarySettings


def test_the_cache_is_used_until_a_name_or_a_setting_changes(tmp_path: Path) -> None:
    settings = DictionarySettings()
    names = Names(["Ada"], tmp_path)
    for _ in range(3):
        assert dictionary_detector(settings, names).detect("Ada") == [Span(0, 3, 1.0)]
    assert names.reads == 1
    dictionary_detector(DictionarySettings(min_chars=3), names)
    assert names.reads == 2
    other = Names(["Bob"], tmp_path)
    assert dictionary_detector(settings, other).detect("Ada") == []
    assert other.reads == 1


@pytest.mark.parametrize(
    "file",
    ["keys.marisa", "surfaces.marisa", "counts.npy", "shapes.npy", "manifest.json"],
)
@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "empty"])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, file: str, damage: str) -> None:
    names = Names(["Ada", "Bob"], tmp_path)
    dictionary_detector(DictionarySettings(), names)
    (folder,) = tmp_path.iterdir()
    path = folder / file
    content = path.read_bytes()
    path.unlink()
    if damage != "remove":
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        path.write_bytes({"flip": flipped, "cut": content[:-1], "empty": b""}[damage])
    for _ in range(2):
        spans = dictionary_detector(DictionarySettings(), names).detect("Ada, Bob")
        assert spans == [Span(0, 3, 1.0), Span(5, 8, 1.0)]
    assert names.reads == 2
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("keys.marisa", b""),
        ("keys.marisa", b"no trie at all" * 9),
        ("surfaces.marisa", b"We love Marisa.\0" + b"\xff" * 200),
        ("counts.npy", np.zeros(1, np.uint32)),
        ("shapes.npy", np.zeros((2, 2), np.uint8)),
    ],
)
def test_files_that_only_the_manifest_believes_are_made_anew(
    tmp_path: Path, file: str, content: bytes | npt.NDArray[np.uint8]
) -> None:
    names = Names(["Ada", "Bob"], tmp_path)
    dictionary_detector(DictionarySettings(), names)
    (folder,) = tmp_path.iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    if isinstance(content, bytes):
        (folder / file).write_bytes(content)
    else:
        np.save(folder / file, content)
    manifest["files"][file] = json.loads(file_info(folder / file).model_dump_json())
    (folder / "manifest.json").write_text(json.dumps(manifest))
    spans = dictionary_detector(DictionarySettings(), names).detect("Ada, Bob")
    assert spans == [Span(0, 3, 1.0), Span(5, 8, 1.0)]
    assert names.reads == 2


def test_a_cache_that_a_stranger_forged_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole and consistent, with all its digests right; marisa would die of other such files."""
    names = Names(["Ada", "Bob"], tmp_path / "cache")
    key = user_key()
    assert key is not None
    dictionary_detector(DictionarySettings(), names)
    (folder,) = (tmp_path / "cache").iterdir()
    with monkeypatch.context() as strangers:
        strangers.setenv("XDG_CONFIG_HOME", str(tmp_path / "stranger"))
        other_key = user_key()
        assert other_key not in (key, None)
        cache.save(Names(["Eve", "Eva"]), DictionarySettings(), folder, other_key)
    assert dictionary_detector(DictionarySettings(), names).detect("Ada Eve") == [Span(0, 3, 1.0)]
    assert names.reads == 2
    dictionary_detector(DictionarySettings(), names)
    assert names.reads == 2


def test_users_of_one_workspace_keep_caches_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(["Ada"], tmp_path / "cache")
    for _ in range(2):
        for user in ("ada", "bob"):
            monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / user))
            dictionary_detector(DictionarySettings(), names)
    assert names.reads == 2
    key = tmp_path / "ada" / "kglink" / "seal.key"
    assert key.stat().st_mode & 0o777 == 0o600


def test_where_no_key_can_be_kept_nothing_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    names = Names(["Ada"], tmp_path / "cache")
    assert dictionary_detector(DictionarySettings(), names).detect("Ada") == [Span(0, 3, 1.0)]
    assert not (tmp_path / "cache").exists()


def test_a_manifest_of_another_format_is_not_read(tmp_path: Path) -> None:
    names = Names(["Ada"], tmp_path)
    dictionary_detector(DictionarySettings(), names)
    (folder,) = tmp_path.iterdir()
    manifest = folder / "manifest.json"
    key = user_key()
    assert key is not None
    assert cache.load(folder, key) is not None
    text = manifest.read_text()
    manifest.write_text(text.replace(f'"format": {cache.FORMAT}', f'"format": {cache.FORMAT + 1}'))
    assert cache.load(folder, key) is None


def test_old_folders_are_forgotten(tmp_path: Path) -> None:
    used = Names(["Ada"], tmp_path)
    for number in range(20):
        dictionary_detector(DictionarySettings(), Names([f"Ada {number}"], tmp_path))
        dictionary_detector(DictionarySettings(), used)
    assert len(list(tmp_path.iterdir())) == 16
    assert used.reads == 1


def test_many_openers_at_once_all_get_the_aliases(tmp_path: Path) -> None:
    names = Names([f"Ada {number}" for number in range(300)], tmp_path)
    answers: list[list[Span]] = []

    def work() -> None:
        answers.append(dictionary_detector(DictionarySettings(), names).detect("Ada 299"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [[Span(0, 7, 1.0)]] * 8
    assert len(list(tmp_path.iterdir())) == 1


def test_where_nothing_can_be_written_it_works_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, errno.EROFS)
    names = Names(["Ada"], tmp_path)
    assert dictionary_detector(DictionarySettings(), names).detect("Ada") == [Span(0, 3, 1.0)]


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.ENOSPC)
    with pytest.raises(StoreError, match="cannot keep the compiled aliases: No space left"):
        dictionary_detector(DictionarySettings(), Names(["Ada"], tmp_path))


def test_a_full_disk_is_said_where_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StoreError, match="none: cannot compile the aliases there: No such file"):
        dictionary_detector(DictionarySettings(), Names(["Ada"]))


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from pathlib import Path
from kglink.plugins import NameRow
from kglink_plugins.detectors.dictionary import compiled
from kglink_plugins.detectors.dictionary.finder import dictionary_detector
from kglink_plugins.plugin import DictionarySettings

class Names:
    cache_dir, fingerprint = Path(sys.argv[1]), "some"
    def __iter__(self):
        for number in range(100):
            yield NameRow(f"Ada {number}", f"ada {number}", "kb", 1)
            if number == 60:
                os.kill(os.getpid(), signal.SIGKILL)

compiled._ROWS_AT_ONCE = 10
dictionary_detector(DictionarySettings(), Names())
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    (draft,) = tmp_path.iterdir()
    assert list(draft.rglob("rows.jsonl"))
    names = Names([f"Ada {number}" for number in range(100)], tmp_path)
    detector = dictionary_detector(DictionarySettings(), names)
    assert detector.detect("Ada 99") == [Span(0, 6, 1.0)]
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("dictionary-")
    assert all(path.is_file() for path in folder.iterdir())


def refuse(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def failing_save(*_: object) -> None:
        raise OSError(number, {errno.ENOSPC: "No space left on device"}.get(number, "Read-only"))

    monkeypatch.setattr(cache, "save", failing_save)


@pytest.mark.parametrize(
    "settings", [{"min_chars": 0}, {"match_case": "sometimes"}, {"minimum": 2}]
)
def test_bad_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DictionarySettings.model_validate(settings)


def test_every_setting_is_described() -> None:
    assert all(setting_descriptions(DictionarySettings).values())
