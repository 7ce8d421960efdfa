"""Each text is encoded once, whoever asks, whatever is killed."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import textwrap
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kglink.errors import StoreError
from kglink.overlap.scratch import VectorCache

DIM = 8


def vector(text: str) -> npt.NDArray[np.float32]:
    made = np.random.default_rng(zlib.crc32(text.encode())).normal(size=DIM)
    return (made / np.linalg.norm(made)).astype(np.float32)


class Encoder:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> npt.NDArray[np.float32]:
        self.asked += texts
        return np.stack([vector(text) for text in texts])


def texts(start: int, stop: int) -> list[str]:
    return [f"text {number}" for number in range(start, stop)]


def test_vectors_are_those_of_the_encoder_in_order(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "cache", DIM, Encoder())
    asked = [*texts(0, 5), "text 2", "", "\ud800"[:0]]
    found = cache.vectors(asked)
    assert found == pytest.approx(np.stack([vector(text) for text in asked]), abs=1e-3)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-6)


def test_no_text_is_encoded_twice(tmp_path: Path) -> None:
    encoder = Encoder()
    cache = VectorCache(tmp_path / "cache", DIM, encoder)
    first = cache.vectors([*texts(0, 4), *texts(0, 4)])
    again = cache.vectors(texts(2, 6))
    assert encoder.asked == texts(0, 6)
    assert np.array_equal(first[2:4], again[:2])
    assert np.array_equal(first[:4], first[4:])


def test_a_later_run_finds_the_very_same_vectors(tmp_path: Path) -> None:
    before = VectorCache(tmp_path / "cache", DIM, Encoder()).vectors(texts(0, 9))
    encoder = Encoder()
    after = VectorCache(tmp_path / "cache", DIM, encoder).vectors(texts(0, 9))
    assert encoder.asked == []
    assert np.array_equal(before, after)


@pytest.mark.parametrize(
    "damage", [b"", b"no database at all" * 300, b"SQLite format 3\0" + b"\xff" * 9000]
)
def test_a_damaged_file_is_begun_anew(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "cache"
    VectorCache(path, DIM, Encoder()).vectors(texts(0, 3))
    path.write_bytes(damage)
    for asked in (texts(0, 3), []):
        encoder = Encoder()
        found = VectorCache(path, DIM, encoder).vectors(texts(0, 3))
        assert encoder.asked == asked
        assert found == pytest.approx(np.stack([vector(text) for text in texts(0, 3)]), abs=1e-3)


def test_a_damaged_page_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    VectorCache(path, DIM, Encoder()).vectors(texts(0, 2000))
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    encoder = Encoder()
    found = VectorCache(path, DIM, encoder).vectors(texts(0, 3))
    assert encoder.asked == texts(0, 3)
    assert found == pytest.approx(np.stack([vector(text) for text in texts(0, 3)]), abs=1e-3)


def test_vectors_of_another_length_are_not_taken(tmp_path: Path) -> None:
    VectorCache(tmp_path / "cache", DIM, Encoder()).vectors(texts(0, 3))
    with closing(sqlite3.connect(tmp_path / "cache")) as file, file:
        file.execute("UPDATE vectors SET vector = x'00' WHERE rowid = 2")
    encoder = Encoder()
    VectorCache(tmp_path / "cache", DIM, encoder).vectors(texts(0, 3))
    assert encoder.asked == ["text 1"]


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="cannot keep vectors of texts in"):
        VectorCache(tmp_path / "folder", DIM, Encoder()).vectors(["text 1"])


CHILD = """
    import os, signal, sqlite3, sys
    from pathlib import Path
    import numpy as np
    from kglink.overlap.scratch import VectorCache

    path, start, kill_at = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    written = 0

    def told(statement):
        global written
        written += statement == "COMMIT"
        if kill_at and written == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def encode(texts):
        rows = [[int(text.split()[1]) + 1, 1, 0, 0, 0, 0, 0, 0] for text in texts]
        vectors = np.array(rows, np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    class Watched(sqlite3.Connection):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            self.set_trace_callback(told)

    connect = sqlite3.connect
    sqlite3.connect = lambda *given, **named: connect(*given, **named, factory=Watched)
    cache = VectorCache(path, 8, encode)
    for first in range(start, start + 100, 10):
        cache.vectors([f"text {number}" for number in range(first, first + 10)])
"""


def run_child(path: Path, start: int, kill_at: int) -> subprocess.Popen[bytes]:
    code = textwrap.dedent(CHILD)
    return subprocess.Popen([sys.executable, "-c", code, str(path), str(start), str(kill_at)])


def check_vectors(path: Path, stop: int) -> int:
    """Every vector that is kept is right; says how many are not there."""
    encoder = Encoder()
    found = VectorCache(path, DIM, encoder).vectors(texts(0, stop))
    missing = set(encoder.asked)
    for number in range(stop):
        if f"text {number}" not in missing:
            assert found[number][0] / found[number][1] == pytest.approx(number + 1, rel=0.15)
    return len(missing)


@pytest.mark.slow
def test_kill_at_any_commit_leaves_a_cache_that_goes_on(tmp_path: Path) -> None:
    for kill_at in (1, 4, 10):
        path = tmp_path / str(kill_at)
        assert run_child(path, 0, kill_at).wait() == -9
        shutil.copy(path, tmp_path / "copy")
        assert check_vectors(tmp_path / "copy", 100) == 100 - 10 * (kill_at - 1)
        assert run_child(path, 0, 0).wait() == 0
        assert check_vectors(path, 100) == 0


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    children = [run_child(tmp_path / "cache", start, 0) for start in (0, 50)]
    assert [child.wait() for child in children] == [0, 0]
    assert check_vectors(tmp_path / "cache", 150) == 0
