"""Fingerprints follow the names and bytes of files and folders, to the last byte of large ones."""

from __future__ import annotations

import io
from hashlib import blake2b
from pathlib import Path

import pytest

from kglink.sources import Source, files
from source_lines import noise


def test_the_fingerprint_is_the_size_and_hash_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(noise(3_000_000))
    expected = blake2b(path.read_bytes(), digest_size=16).hexdigest()
    with Source.open_path(path) as source:
        assert source.fingerprint() == f"blake2b:{path.stat().st_size}:{expected}"
    with Source.open_path("-", stdin=io.BytesIO(path.read_bytes())) as piped:
        assert piped.fingerprint() == f"blake2b:{path.stat().st_size}:{expected}"


def test_large_files_are_sampled_to_their_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FINGERPRINT_BYTES", 4 * 2**20)
    size = 9 * 2**20 + 5
    ranges = list(files.sampled_ranges(size))
    assert [length for _, length in ranges] == [2**20] * 4
    assert (ranges[0][0], ranges[-1][0] + ranges[-1][1]) == (0, size)
    data = bytearray(size)
    first = Source.from_bytes(bytes(data)).fingerprint()
    data[-1] = 1
    assert Source.from_bytes(bytes(data)).fingerprint() != first


def test_a_folders_fingerprint_follows_names_and_contents(tmp_path: Path) -> None:
    def fingerprint() -> str:
        return Source.open_path(tmp_path).fingerprint()

    (tmp_path / "a").write_text("1")
    first = fingerprint()
    assert fingerprint() == first
    (tmp_path / "a").write_text("2")
    second = fingerprint()
    (tmp_path / "a").rename(tmp_path / "b")
    assert len({first, second, fingerprint()}) == 3
