"""Paths: standard input and pipes, files that are missing or refused, and folders."""

from __future__ import annotations

import errno
import io
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kglink.errors import SourceError
from kglink.sources import Line, Problems, Source
from rights import as_a_plain_user
from source_lines import read_lines


def test_standard_input_is_larger_than_memory_would_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = (b"x" * 1023 + b"\n") * (17 * 2**10)  # 17 MiB, past what is kept in memory
    with Source.open_path("-", stdin=io.BytesIO(data)) as source:
        assert source.bytes_total == len(data)
        assert sum(1 for _ in source.lines(Problems())) == data.count(b"\n")
        assert list(tmp_path.iterdir()) == []  # it has no name: a killed process leaves nothing


def test_a_named_pipe_is_read_like_standard_input(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a\nb\n",))
    writer.start()
    with Source.open_path(pipe) as source:
        writer.join()
        assert read_lines(source) == read_lines(source) == [Line(1, "a"), Line(2, "b")]
        assert source.where(2) == "pipe.jsonl, line 2"


def test_a_full_disk_while_keeping_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(SourceError, match="copy of standard input: No space left") as caught:
        Source.open_path("-", stdin=Full())
    assert "TMPDIR" in caught.value.hint


def test_a_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(SourceError, match="no standard input"):
        Source.open_path("-")


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "entities.jsonl.gz").touch()
    with pytest.raises(SourceError, match=r"entities\.jsonl does not exist") as caught:
        Source.open_path(tmp_path / "entities.jsonl")
    assert caught.value.hint == f"Did you mean {tmp_path / 'entities.jsonl.gz'}?"
    with pytest.raises(SourceError) as caught:
        Source.open_path(tmp_path / "nowhere" / "a")
    assert caught.value.hint == f"There is no folder {tmp_path / 'nowhere'} either."
    with pytest.raises(SourceError, match="empty name"):
        Source.open_path("")


def test_a_path_that_the_system_refuses(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(SourceError, match=r"cannot read .*loop: Too many levels"):
        Source.open_path(loop)
    with pytest.raises(SourceError, match="cannot read"):
        Source.open_path("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(SourceError, match=r"cannot read .*secret: Permission denied"):
        Source.open_path(path)


def test_a_folder_has_files_but_no_content(tmp_path: Path) -> None:
    for name in ("b/two.txt", "a.txt", ".hidden", ".git/x.txt", "c.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(f"{name}\n".encode())
    with Source.open_path(tmp_path) as source:
        assert source.is_folder
        assert source.head == (tmp_path.name, b"", tmp_path)
        assert [file.name for file in source.files()] == ["a.txt", "b/two.txt", "c.md"]
        found = source.files("*.txt")
        assert [read_lines(file) for file in found] == [[Line(1, "a.txt")], [Line(1, "b/two.txt")]]
        assert source.bytes_read == source.bytes_total == 6 + 10
        assert [file.name for file in source.files()] == ["a.txt", "b/two.txt", "c.md"]
        with pytest.raises(SourceError, match="is a folder where a file is wanted"):
            read_lines(source)


def test_a_folder_that_may_not_be_read_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / ".own").mkdir(mode=0)
    source = Source.open_path(tmp_path)
    assert [file.name for file in as_a_plain_user(source.files)] == ["a.txt"]
    (tmp_path / "b").mkdir(mode=0)
    closed = as_a_plain_user(Source.open_path(tmp_path).files)[1]
    with pytest.raises(SourceError, match=r"^cannot read b/: Permission denied"):
        as_a_plain_user(closed.text)
    told = as_a_plain_user(lambda: Source.open_path(tmp_path).files("*.RRF*"))
    assert [file.name for file in told] == ["b/"]
    with pytest.raises(SourceError, match=r"cannot read .*b: Permission denied"):
        as_a_plain_user(lambda: Source.open_path(tmp_path / "b"))


def test_files_of_a_folder_that_may_not_be_searched_are_not_passed_over(tmp_path: Path) -> None:
    for name in ("a.txt", "b/c.txt", "b/s/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a")
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "b").chmod(0o444)
    source = Source.open_path(tmp_path)
    files = as_a_plain_user(source.files)
    assert [file.name for file in files] == ["a.txt", "b/c.txt", "b/s/"]
    for file in files[1:]:
        with pytest.raises(SourceError, match=rf"^cannot read {file.name}: Permission denied"):
            as_a_plain_user(file.text)
        assert file.bytes_total  # an empty text would be a text
    with pytest.raises(SourceError, match=r"^cannot read b/c\.txt: Permission denied"):
        as_a_plain_user(source.fingerprint)


def test_a_folder_that_goes_while_it_is_listed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def walk(folder: Path, *, onerror: Callable[[OSError], None]) -> list[object]:
        onerror(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder / "b")))
        return []

    monkeypatch.setattr("os.walk", walk)
    (gone,) = Source.open_path(tmp_path).files()
    with pytest.raises(SourceError, match=r"^cannot read b/: No such file"):
        gone.text()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.xml", "a.xml q/s/d.xml s/b.xml s/t/c.xml"),
        ("**/*.xml", "a.xml q/s/d.xml s/b.xml s/t/c.xml"),
        ("**/s/*.xml", "q/s/d.xml s/b.xml"),
        ("s/*", "q/s/d.xml s/b.xml"),
        ("s/**/*", "q/s/d.xml s/b.xml s/t/c.xml"),
        ("*.none", ""),
    ],
)
def test_patterns_find_files_below(tmp_path: Path, pattern: str, found: str) -> None:
    for name in ("a.xml", "s/b.xml", "s/t/c.xml", "q/s/d.xml", ".h/s/e.xml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a")
    source = Source.open_path(tmp_path)
    assert [file.name for file in source.files(pattern)] == found.split()
    assert source.bytes_total == len(found.split())


def test_a_file_that_shrinks_while_it_is_read_is_told(tmp_path: Path) -> None:
    """Else an update would take what is missing for removed."""
    path = tmp_path / "entities.jsonl"
    path.write_bytes(b"line\n" * 500_000)
    with Source.open_path(path) as source:
        lines = source.lines(Problems())
        next(lines)
        path.write_bytes(b"line\n")
        with pytest.raises(SourceError, match=r"entities\.jsonl became shorter"):
            list(lines)
