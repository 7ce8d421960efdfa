"""What `-o` writes: two at once, planted links, modes."""

from __future__ import annotations

import json
import os
import resource
import stat
import threading
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.errors import UsageError
from kglink.workspace import Workspace
from kglink.workspace.outputs import whole_file


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_two_exports_to_one_file_do_not_mix(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "kb.jsonl"
    failed: list[BaseException] = []

    def export(kb: str) -> None:
        try:
            with Workspace.open(demo) as workspace:
                for _ in range(3):
                    workspace.export(kb, output)
        except BaseException as error:
            failed.append(error)
            raise

    with Workspace.open(demo) as workspace:
        whole = []
        for kb in ("encyclopedia", "lanternfall"):
            workspace.export(kb, tmp_path / f"{kb}.jsonl")
            whole.append((tmp_path / f"{kb}.jsonl").read_bytes())
    threads = [
        threading.Thread(target=export, args=(kb,)) for kb in ("encyclopedia", "lanternfall")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert output.read_bytes() in whole
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["out.html", "out.jsonl"])
def test_planted_links_are_not_followed(
    kglink: Kglink, demo: Path, tmp_path: Path, name: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    for planted in (f".{name}.partial", f".{name}.kglink-0123abcd"):
        (tmp_path / planted).symlink_to(victim)
    kglink("link", "-", "-o", tmp_path / name, stdin="Heron")
    assert victim.read_text(encoding="utf-8") == "mine"
    (tmp_path / name).unlink()
    (tmp_path / f".{name}.lock").symlink_to(tmp_path / "made")
    ran = kglink("link", "-", "-o", tmp_path / name, stdin="Heron", code=2)
    assert f"cannot write {tmp_path / name}" in ran.err.replace("\n", "")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["out.html", "out.jsonl", "out.jsonl.gz"])
def test_the_mode_of_an_output_is_kept_and_a_link_is_written_through(
    kglink: Kglink, demo: Path, tmp_path: Path, name: str
) -> None:
    real = tmp_path / "real"
    real.mkdir()
    output = real / name
    output.touch(mode=0o600)
    output.chmod(0o600)
    (tmp_path / name).symlink_to(output)
    kglink("link", "-", "-o", tmp_path / name, "-f", "jsonl", stdin="Heron")
    assert (tmp_path / name).is_symlink()
    assert output.stat().st_size > 0
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert [path.name for path in real.iterdir()] == [name]


@pytest.mark.parametrize("name", ["out.html", "out.jsonl", "out.jsonl.gz", "export.jsonl"])
def test_an_output_is_on_the_disk_before_it_takes_its_name(
    kglink: Kglink, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """After a power cut there is the old output or the new one, and never an empty one."""
    steps: list[tuple[str, int]] = []
    fsync, rename = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        steps.append(("sync", os.fstat(descriptor).st_ino))
        fsync(descriptor)

    def renamed(self: Path, target: Path) -> Path:
        steps.append(("rename", self.stat().st_ino))
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    output = tmp_path / name
    exported = ["export", "encyclopedia"]
    what = exported if name.startswith("export") else ["link", "-", "-f", name.split(".")[1]]
    kglink(*what, "-o", output, stdin="Heron")
    file, folder = output.stat().st_ino, tmp_path.stat().st_ino
    assert [step for step in steps if step[1] in {file, folder}] == [
        ("sync", file),
        ("rename", file),
        ("sync", folder),
    ]


@pytest.mark.parametrize(("owner", "call"), [(os, "fsync"), (Path, "replace")])
def test_a_disk_that_is_full_at_the_last_moment_is_told_in_words(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, call: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    output = tmp_path / "out.txt"
    output.write_text("before", encoding="utf-8")

    def write() -> None:
        with Workspace.open(demo) as workspace, whole_file(workspace, output) as out:
            out.write("after")
            monkeypatch.setattr(
                *(os, "fsync", full) if call == "fsync" else (Path, "replace", full)
            )

    with pytest.raises(UsageError, match="No space left on device"):
        write()
    assert output.read_text(encoding="utf-8") == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kb.jsonl", "links.html", "links.jsonl"])
def test_a_full_disk_is_told_with_the_file(
    kglink: Kglink, demo: Path, tmp_path: Path, name: str
) -> None:
    output = tmp_path / name
    (tmp_path / "text.txt").write_text("The heron at the lighthouse. " * 200, encoding="utf-8")
    words = ["link", tmp_path / "text.txt"] if "links" in name else ["export", "encyclopedia"]
    kglink("-w", demo, *words, "-o", tmp_path / f"before.{name}")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))
    try:
        told = kglink("-w", demo, *words, "-o", output, code=1).err
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert f"{output}: File too large" in told
    assert not output.exists()
    kglink("-w", demo, *words, "-o", output)
    assert output.read_bytes() == (tmp_path / f"before.{name}").read_bytes()
