"""Each text is encoded once, whoever asks, whatever is killed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kglink.overlap import vectors as vector_cache
from kglink.overlap.vectors import VectorCache

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
    cache = VectorCache(tmp_path, DIM, encoder)
    first = cache.vectors([*texts(0, 4), *texts(0, 4)])
    again = cache.vectors(texts(2, 6))
    assert encoder.asked == texts(0, 6)
    assert cache.encoded == 6
    assert np.array_equal(first[2:4], again[:2])


def test_a_later_run_finds_the_very_same_vectors(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, DIM, Encoder())
    before = cache.vectors(texts(0, 9))
    cache.flush()
    encoder = Encoder()
    after = VectorCache(tmp_path, DIM, encoder).vectors(texts(0, 9))
    assert encoder.asked == []
    assert np.array_equal(before, after)


def test_parts_are_merged_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_cache, "PART_ROWS", 4)
    monkeypatch.setattr(vector_cache, "MOST_PARTS", 3)
    monkeypatch.setattr(vector_cache, "_COPY_ROWS", 5)
    cache = VectorCache(tmp_path, DIM, Encoder())
    other = VectorCache(tmp_path, DIM, Encoder())
    other.vectors(["text 1"])
    for start in range(0, 60, 6):
        cache.vectors(texts(start, start + 6))
        other.vectors([f"text {start}"])
    other.flush()
    assert len(list(tmp_path.glob("*.hashes.npy"))) < 6
    encoder = Encoder()
    found = VectorCache(tmp_path, DIM, encoder).vectors(texts(0, 60))
    assert encoder.asked == []
    assert found == pytest.approx(np.stack([vector(text) for text in texts(0, 60)]), abs=1e-3)


def test_a_small_part_is_not_merged_into_a_much_larger_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_cache, "MOST_PARTS", 2)
    cache = VectorCache(tmp_path, DIM, Encoder())
    cache.vectors(texts(0, 100))
    cache.flush()
    (large,) = tmp_path.glob("*.hashes.npy")
    for number in range(100, 104):
        cache.vectors([f"text {number}"])
        cache.flush()
    assert large.exists()
    assert len(list(tmp_path.glob("*.hashes.npy"))) == 2


def test_a_reader_keeps_what_was_merged_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = VectorCache(tmp_path, DIM, Encoder())
    writer.vectors(texts(0, 3))
    writer.flush()
    encoder = Encoder()
    reader = VectorCache(tmp_path, DIM, encoder)
    reader.vectors(["text 0"])
    monkeypatch.setattr(vector_cache, "MOST_PARTS", 2)
    writer.vectors(texts(3, 6))
    writer.flush()
    assert len(list(tmp_path.glob("*.hashes.npy"))) == 1
    assert reader.vectors(texts(0, 3)) == pytest.approx(writer.vectors(texts(0, 3)))
    assert encoder.asked == []


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"no array at all" * 30])
def test_a_part_that_was_cut_off_is_encoded_anew(tmp_path: Path, damage: bytes) -> None:
    cache = VectorCache(tmp_path, DIM, Encoder())
    cache.vectors(texts(0, 3))
    cache.flush()
    (part,) = tmp_path.glob("*.vectors.npy")
    part.write_bytes(damage)
    encoder = Encoder()
    found = VectorCache(tmp_path, DIM, encoder).vectors(texts(0, 3))
    assert encoder.asked == texts(0, 3)
    assert found == pytest.approx(np.stack([vector(text) for text in texts(0, 3)]), abs=1e-3)


CHILD = """
    import os, signal, sys
    from pathlib import Path
    import numpy as np
    from kglink.overlap import vectors as vector_cache
    from kglink.overlap.vectors import VectorCache

    vector_cache.PART_ROWS, vector_cache.MOST_PARTS = 10, 3
    folder, start, kill_at = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    renamed = 0
    plain = Path.rename

    def rename(path, target):
        global renamed
        renamed += 1
        if renamed == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(path, target)

    Path.rename = rename

    def encode(texts):
        rows = [[int(text.split()[1]) + 1, 1, 0, 0, 0, 0, 0, 0] for text in texts]
        vectors = np.array(rows, np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    cache = VectorCache(folder, 8, encode)
    for first in range(start, start + 100, 10):
        cache.vectors([f"text {number}" for number in range(first, first + 10)])
    cache.flush()
"""


def run_child(folder: Path, start: int, kill_at: int) -> subprocess.Popen[bytes]:
    code = textwrap.dedent(CHILD)
    return subprocess.Popen([sys.executable, "-c", code, str(folder), str(start), str(kill_at)])


def angle(number: int) -> float:
    """What the child's encoder makes of a text: the ratio of the first two values."""
    return (number + 1) / 1


def check_angles(folder: Path, stop: int) -> int:
    """Every vector that is kept is right; says how many are not there."""
    encoder = Encoder()
    found = VectorCache(folder, DIM, encoder).vectors(texts(0, stop))
    missing = set(encoder.asked)
    for number in range(stop):
        if f"text {number}" not in missing:
            assert found[number][0] / found[number][1] == pytest.approx(angle(number), rel=0.15)
    return len(missing)


def test_kill_at_any_rename_leaves_a_cache_that_goes_on(tmp_path: Path) -> None:
    for kill_at in (1, 2, 6, 7, 9):
        folder = tmp_path / str(kill_at)
        assert run_child(folder, 0, kill_at).wait() == -9
        check_angles(folder, 100)
        assert run_child(folder, 0, 0).wait() == 0
        assert check_angles(folder, 100) == 0


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    children = [run_child(tmp_path, start, 0) for start in (0, 50)]
    assert [child.wait() for child in children] == [0, 0]
    assert check_angles(tmp_path, 150) == 0
