"""Packed sources are known by content, read to their end, and told where they break or grow."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kglink.errors import SourceError
from kglink.sources import Line, Problems, Source, SourceLimits, compression
from kglink.sources.compression import zstd
from source_lines import lines_of, noise, read_lines, skipped

Pack = Callable[[bytes], bytes]


def packed_by_zstd(data: bytes) -> bytes:
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: True})


PACKERS: dict[str, Pack] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": packed_by_zstd,
    "xz": partial(lzma.compress, preset=0),
}


@pytest.fixture(params=PACKERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pack(kind: str) -> Pack:
    return PACKERS[kind]


# ---------------------------------------------------------------------------- compression
def test_compression_is_known_by_content_not_by_name(pack: Pack, tmp_path: Path) -> None:
    data = noise(200_000)
    path = tmp_path / "misnamed.txt"
    path.write_bytes(pack(data))
    with Source.open_path(path) as source, source.open() as stream:
        assert stream.read() == data
        assert source.head.name == "misnamed.txt"
    plain = tmp_path / "plain.jsonl.gz"
    plain.write_bytes(b"no gzip\n")
    with Source.open_path(plain) as source:
        assert read_lines(source) == [Line(1, "no gzip")]
        assert source.head.name == "plain.jsonl.gz"


def test_several_streams_in_one_file_are_read_to_the_end(pack: Pack) -> None:
    data = pack(b"one\ntw") + pack(b"") + pack(b"o\nthree") + b"\0" * 600
    assert [line.text for line in lines_of(data)] == ["one", "two", "three"]


def test_an_xz_stream_may_not_take_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_XZ_MEMORY", 2**20)
    with pytest.raises(SourceError, match="needs over 1 MiB of memory to be unpacked") as refused:
        lines_of(lzma.compress(b"one\n"))
    assert "xz -dc a.txt | kglink" in refused.value.hint


def test_a_zstd_stream_with_a_long_window_is_not_called_damaged() -> None:
    # A frame of the content "one\\n", raw, whose header asks for a window of two GiB.
    frame = b"\x28\xb5\x2f\xfd\x00\xa8" + (1 | 4 << 3).to_bytes(3, "little") + b"one\n"
    with pytest.raises(SourceError, match="needs over 128 MiB of memory") as refused:
        lines_of(frame)
    assert "zstd -dc --long=31 a.txt | kglink" in refused.value.hint


def test_zstd_skippable_frames_and_sizeless_frames_are_read() -> None:
    skippable = b"\x52\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    writer = zstd.ZstdCompressor()  # it is not told how much is to come
    streamed = writer.compress(b"second\n") + writer.flush()
    data = skippable + packed_by_zstd(b"first\n") + skippable + streamed
    assert [line.text for line in lines_of(data)] == ["first", "second"]


@pytest.mark.parametrize("missing", [1, 4, 30_000])
def test_a_truncated_file_says_where_it_breaks(pack: Pack, missing: int) -> None:
    data = noise(300_000)
    cut = pack(data)[:-missing]
    with pytest.raises(SourceError, match=r"a\.txt is cut short: its") as caught:
        skipped(cut)
    place = re.search(
        r"\(in line ([\d,]+), after ([\d,]+) unpacked bytes, near byte ([\d,]+) of the file\)",
        caught.value.message,
    )
    assert place
    line, unpacked, position = (int(number.replace(",", "")) for number in place.groups())
    assert position == len(cut)
    assert line == data[:unpacked].count(b"\n") + 1


def test_every_line_before_the_break_is_read() -> None:
    data = noise(3_000_000)
    cut = gzip.compress(data)[:-1000]
    read: list[str] = []
    with Source.from_bytes(cut, name="a.txt") as source, pytest.raises(SourceError):
        read.extend(line.text for line in source.lines(Problems()))
    whole = data.decode().split("\n")
    assert read == whole[: len(read)]
    assert len(read) > len(whole) * 0.6


def test_a_damaged_file_says_where(pack: Pack) -> None:
    data = bytearray(pack(noise(300_000)))
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(range(40))
    with pytest.raises(SourceError, match=r"damaged|cut short"):
        lines_of(bytes(data))


def test_a_wrong_checksum_is_noticed() -> None:
    data = bytearray(gzip.compress(b"some text\n"))
    data[-8] ^= 1
    with pytest.raises(SourceError, match=r"is damaged: .* incorrect data check"):
        lines_of(bytes(data))


def test_junk_behind_a_stream_is_noticed(pack: Pack) -> None:
    with pytest.raises(SourceError, match=r"damaged|cut short"):
        lines_of(pack(b"text\n") + b"junk junk junk junk junk")


@pytest.mark.parametrize(
    ("magic", "name", "command"),
    [
        (b"PK\x03\x04rest", "zip", "unzip -p a.txt | kglink"),
        (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc a.txt | kglink"),
    ],
)
def test_other_archives_are_named_with_the_fix(magic: bytes, name: str, command: str) -> None:
    with pytest.raises(SourceError, match=f"is packed with {name}") as caught:
        lines_of(magic)
    assert command in caught.value.hint


def test_the_fix_names_the_file_where_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "a b.txt"
    path.write_bytes(b"\x04\x22\x4d\x18")
    with pytest.raises(SourceError, match=r"^a b\.txt is packed with lz4") as caught:
        read_lines(Source.open_path(path))
    assert f"lz4 -dc '{path}' | kglink" in caught.value.hint


def test_a_tar_archive_is_named_with_the_fix() -> None:
    header = b"entities.jsonl".ljust(257, b"\0") + b"ustar\x0000".ljust(255, b"\0")
    with pytest.raises(SourceError, match=r"a\.txt is a tar archive"):
        lines_of(gzip.compress(header))


def test_a_decompression_bomb_is_stopped(pack: Pack) -> None:
    limits = SourceLimits(max_expansion=50, free_expansion=2**18)
    data = pack(b"\n" * 4_000_000)
    assert len(data) * 50 < 4_000_000
    with pytest.raises(SourceError, match=r"grows to more than 50 times its size") as caught:
        lines_of(data, limits)
    assert "ingest.max_expansion" in caught.value.hint


def test_a_bomb_is_never_held_in_memory(pack: Pack) -> None:
    data = pack(b"\0" * 100_000_000)
    tracemalloc.start()
    try:
        with Source.from_bytes(data) as source, source.open() as stream:
            for _ in range(50):
                stream.read(2**18)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 80 * 2**20


def test_what_expands_less_than_the_allowance_is_read(pack: Pack) -> None:
    limits = SourceLimits(max_expansion=2, free_expansion=2**20)
    assert len(lines_of(pack(b"a\n" * 100_000), limits)) == 100_000


# ------------------------------------------------------------------------------- progress
def test_progress_counts_compressed_bytes(pack: Pack, tmp_path: Path) -> None:
    path = tmp_path / "a.txt.x"
    path.write_bytes(pack(noise(3_000_000)))
    with Source.open_path(path) as source:
        assert (source.bytes_read, source.bytes_total) == (0, path.stat().st_size)
        assert source.head.head.count(b"\n") > 0
        assert source.bytes_read == 0  # looking at the head is no progress
        seen = [source.bytes_read for _ in source.lines(Problems())]
        assert seen == sorted(seen)
        assert 0 < seen[0] < source.bytes_total // 2
        assert source.bytes_read == source.bytes_total
        next(source.lines(Problems()))
        assert source.bytes_read < source.bytes_total  # a new reading starts again


# ----------------------------------------------------------------------------------- head
def test_the_head_is_the_first_64_kib_and_nothing_is_lost(pack: Pack) -> None:
    data = noise(500_000)
    with Source.open_path("-", stdin=io.BytesIO(pack(data))) as source:
        assert source.head == ("-", data[: 2**16], None)
        with source.open() as stream:
            assert stream.read() == data
        with source.open() as stream:
            assert stream.read() == data  # and once more, from the beginning


def test_head_names_leave_out_the_compression_suffix(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"entities.jsonl.{kind}"
    path.write_bytes(PACKERS[kind](b"{}\n"))
    with Source.open_path(path) as source:
        assert source.head == ("entities.jsonl", b"{}\n", path)


def test_the_head_of_a_broken_file_is_what_can_be_read() -> None:
    with Source.from_bytes(gzip.compress(noise(40_000))[:-2000]) as source:
        assert 0 < len(source.head.head) < 40_000


@pytest.mark.parametrize(
    "data",
    [b"", gzip.compress(b"", mtime=0), bz2.compress(b""), packed_by_zstd(b""), lzma.compress(b"")],
    ids=["nothing", "gzip", "bzip2", "zstd", "xz"],
)
def test_an_empty_source(data: bytes) -> None:
    with pytest.raises(SourceError, match=r"a\.txt is empty"):
        lines_of(data)
