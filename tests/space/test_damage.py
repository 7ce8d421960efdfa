"""Damaged files of a space: never a crash, never an answer, and a build mends them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hash_spaces import AMBER, HERON, MERCURY, backend_of, build, job, opened, source
from kglink.errors import ConfigError, DamagedSpaceError, SpaceError
from kglink.files.manifest import CHECKED_FILE, damaged_files, file_info
from kglink.linking.scoring import SCORING_FILE, read_scoring
from kglink.space.folder import CURRENT_FILE, INDEX_FILE, MANIFEST_FILE, SpaceFolder
from kglink.space.manifest import read_part
from kglink.space.segment import INFO_FILE

SOURCE = source("kb", MERCURY, AMBER, HERON)


@pytest.fixture
def folder(tmp_path: Path) -> SpaceFolder:
    made = SpaceFolder(tmp_path, "default")
    build(made, SOURCE)
    return made


def segment_of(folder: SpaceFolder) -> Path:
    (segment,) = folder.segments.iterdir()
    return segment


def version_of(folder: SpaceFolder) -> Path:
    version = folder.current
    assert version is not None
    return version


def forge(segment: Path, name: str, values: np.ndarray) -> None:
    """Put other values into a file, and its digest into the manifest."""
    np.save(segment / name, values)
    info = json.loads((segment / INFO_FILE).read_text())
    info["files"][name] = file_info(segment / name).model_dump()
    (segment / INFO_FILE).write_text(json.dumps(info))


# ------------------------------------------------------------------------------------ content
@pytest.mark.parametrize("name", ["grams0.indices.npy", "text.npy", "folded.utf8", "idf.npy"])
def test_a_changed_file_is_refused_told_and_built_anew(folder: SpaceFolder, name: str) -> None:
    path = segment_of(folder) / name
    before = path.read_bytes()
    path.write_bytes(before[:-8] + b"\xff" * 8)
    with pytest.raises(DamagedSpaceError, match=f"{name}: its content is not what was written"):
        opened(folder)
    assert folder.damage() == [str(path)]
    build(folder, SOURCE)
    assert opened(folder).kbs() == ("kb",)
    assert (segment_of(folder) / name).read_bytes() == before


def test_what_a_build_replaces_while_it_is_read_is_not_damaged(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = iter("234")

    def publishing(read: Callable[..., Any]) -> Callable[..., Any]:
        """The same, and another process publishes in the midst of the first call."""
        done: list[bool] = []

        def reads(*given: Any, **how: Any) -> Any:
            if not done:
                done.append(True)
                build(folder, source("kb", MERCURY, AMBER, HERON, content=next(changes)))
            return read(*given, **how)

        return reads

    monkeypatch.setattr("kglink.space.folder.damaged_files", publishing(damaged_files))
    assert folder.damage() == []
    made = job(folder, [SOURCE])
    monkeypatch.setattr("kglink.space.build.read_part", publishing(read_part))
    assert made.vectors_done() == (8, 8)
    monkeypatch.setattr("kglink.space.folder.read_part", publishing(read_part))
    assert folder.published_manifest().kbs == ("kb",)


def test_zeroed_vectors_of_the_index_are_noticed_and_built_anew(folder: SpaceFolder) -> None:
    path = version_of(folder) / INDEX_FILE
    content = bytearray(path.read_bytes())
    content[60:-32] = bytes(len(content) - 92)
    path.write_bytes(content)
    with pytest.raises(DamagedSpaceError, match="its content is not what was written"):
        opened(folder)
    build(folder, SOURCE)
    assert folder.damage() == []
    query = opened(folder).segments["kb"].vectors("text", slice(1, 2))
    assert opened(folder).nearest(query, "kb", "text", 1)[1].tolist() == [[1]]


def test_damage_that_left_no_trace_is_found_by_its_digest_and_remembered(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segment_of(folder) / "titles.utf8"
    path.write_bytes(path.read_bytes().swapcase())
    noted = path.parent / CHECKED_FILE
    times = json.loads(noted.read_text())
    times["titles.utf8"] = [path.stat().st_mtime_ns, path.stat().st_ctime_ns]
    noted.write_text(json.dumps(times))
    opened(folder)  # as after a fault of the disk: nobody has written to the file
    assert folder.damage() == [str(path)]
    with pytest.raises(DamagedSpaceError, match="titles"):
        opened(folder)


def test_files_that_were_only_touched_are_read_once(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in segment_of(folder).iterdir():
        os.utime(path)
    opened(folder)
    monkeypatch.setattr("kglink.files.manifest.file_digest", pytest.fail)
    opened(folder)


# ------------------------------------------------------------------------------------ bounds
Change = Callable[[np.ndarray], np.ndarray]


def at_end(value: float) -> Change:
    def change(values: np.ndarray) -> np.ndarray:
        changed = values.copy()
        changed[-1] = value
        return changed

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("grams0.indices.npy", at_end(5)),
        ("grams0.indices.npy", at_end(-1)),
        ("grams0.indices.npy", lambda values: values.astype(np.int64)),
        ("grams0.indptr.npy", at_end(2**30)),
        ("grams0.indptr.npy", lambda values: values[:-1]),
        ("grams0.indptr.npy", lambda values: np.where(values == values[-1], values, 2**30)),
        ("grams0.data.npy", lambda values: values[:-1]),
        ("grams0.data.npy", lambda values: values.astype(np.float64)),
        ("name_rows.npy", at_end(5)),
        ("name_hashes.npy", lambda values: values[1:]),
        ("idf.npy", lambda values: values[1:]),
        ("alias_starts.npy", at_end(6)),
        ("alias_starts.npy", lambda values: values[[1, 0, 2, 3]]),
        ("alias_counts.npy", lambda values: values[1:]),
        ("popularity.npy", lambda values: values[1:]),
        ("text.npy", lambda values: values[1:]),
        ("alias.npy", lambda values: values[:, 1:]),
        ("titles.offsets.npy", at_end(2**40)),
        ("titles.offsets.npy", lambda values: values[[0, 2, 1, 3]]),
        ("surfaces.offsets.npy", lambda values: values[[0, 1, 2, 3, 5]]),
        ("keys.offsets.npy", lambda values: values[[0, 3]]),
    ],
)
def test_arrays_that_point_elsewhere_are_refused_whatever_their_digest(
    folder: SpaceFolder, name: str, change: Change
) -> None:
    segment = segment_of(folder)
    forge(segment, name, change(np.load(segment / name)))
    with pytest.raises(DamagedSpaceError, match=str(segment)):
        opened(folder)


def test_spans_that_are_not_those_of_the_segments_are_refused(folder: SpaceFolder) -> None:
    path = version_of(folder) / MANIFEST_FILE
    manifest = json.loads(path.read_text())
    manifest["spans"][0]["stop"] += 1
    path.write_text(json.dumps(manifest))
    with pytest.raises(DamagedSpaceError, match="its rows are not its segments'"):
        opened(folder)


def test_segments_lie_in_the_folder_of_segments(folder: SpaceFolder) -> None:
    path = version_of(folder) / MANIFEST_FILE
    manifest = json.loads(path.read_text())
    manifest["segments"]["kb"] = f"../segments/{segment_of(folder).name}"
    path.write_text(json.dumps(manifest))
    with pytest.raises(DamagedSpaceError, match=r"segments\.kb"):
        opened(folder)


# ------------------------------------------------------------------------------------ states
@pytest.mark.parametrize(
    ("name", "content"),
    [
        (CURRENT_FILE, b"\xff\xfe"),
        (CURRENT_FILE, b""),
        (CURRENT_FILE, b"../../etc"),
        (CURRENT_FILE, "²".encode()),
        (MANIFEST_FILE, b"[" * 100_000),
        (MANIFEST_FILE, b'{"settings": ' + b'{"a":' * 50_000),
        (MANIFEST_FILE, b'{"format": 99}'),
        (INFO_FILE, b"[" * 100_000),
        (INFO_FILE, b"\xff\xfe"),
        (CHECKED_FILE, b"[" * 100_000),
    ],
)
def test_what_cannot_be_read_is_told_in_words_and_built_anew(
    folder: SpaceFolder, name: str, content: bytes
) -> None:
    for path in folder.path.rglob(name):
        path.write_bytes(content)
    if name == CHECKED_FILE:  # all files are read instead
        opened(folder)
    else:
        with pytest.raises(SpaceError, match=re.escape(name)):
            opened(folder)
        assert folder.damage()
    build(folder, SOURCE)
    assert folder.damage() == []
    assert opened(folder).kbs() == ("kb",)


def test_stray_files_and_links_do_not_stop_a_build(folder: SpaceFolder, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "mine").touch()
    for place in (folder.versions, folder.segments):
        (place / "notes.txt").touch()
        (place / "000099").symlink_to(victim)
        (place / "²").mkdir()
    for _ in range(2):
        build(folder, SOURCE)
    assert folder.damage() == []
    assert (victim / "mine").exists()
    kept = {path.name for path in folder.versions.iterdir()}
    assert kept == {"notes.txt", "000099", version_of(folder).name}


def test_drafts_of_dead_processes_are_swept_by_the_next_build(folder: SpaceFolder) -> None:
    stale = [
        folder.path / ".CURRENT.kglink-0123abcd",
        folder.path / ".scoring.json.kglink-0123abcd",
        folder.versions / ".000002.kglink-0123abcd",
        folder.segments / ".kb-0123.kglink-0123abcd",
    ]
    for path in stale[:2]:
        path.touch()
    for path in stale[2:]:
        path.mkdir()
    build(folder, SOURCE)
    assert not [path for path in stale if path.exists()]


# ------------------------------------------------------------------------------------ order
def test_all_files_are_on_the_disk_before_a_version_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    published: list[set[int]] = []
    fsync, replace = os.fsync, Path.replace

    def noted(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def moved(self: Path, target: Path) -> Path:
        if target.name == CURRENT_FILE:
            published.append(set(synced))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Path, "replace", moved)
    folder = SpaceFolder(tmp_path, "default")
    build(folder, SOURCE, source("two", HERON))
    (before,) = published
    needed = [version_of(folder), *folder.segments.iterdir()]
    needed += [path for place in needed for path in place.iterdir()]
    needed += [folder.versions, folder.segments]
    assert not [str(path) for path in needed if path.stat().st_ino not in before]
    assert folder.path.stat().st_ino in synced


# ------------------------------------------------------------------------------------ factories
@pytest.mark.parametrize("factory", ["IVF1," * 5000, "IVF1," * 40 + "Flat", "HNSW99999999999"])
def test_a_factory_string_without_sense_is_refused_before_faiss_sees_it(factory: str) -> None:
    with pytest.raises(ConfigError, match="factory"):
        backend_of("kglink/faiss", {"factory": factory})


@pytest.mark.parametrize("name", [CURRENT_FILE, "lock", "versions"])
def test_what_lies_in_the_way_of_a_build_is_named(folder: SpaceFolder, name: str) -> None:
    path = folder.path / name
    if path.is_dir():
        shutil.rmtree(path)
        path.touch()
    else:
        path.unlink()
        path.mkdir()
    with pytest.raises(SpaceError, match=f"{path}: .*\n.*move it away"):
        build(folder, SOURCE)


def test_a_scoring_that_cannot_be_read_is_told_in_words(folder: SpaceFolder) -> None:
    (folder.path / SCORING_FILE).write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(SpaceError, match=r"scoring\.json: is not what kglink writes"):
        read_scoring(folder.path, "f1")
