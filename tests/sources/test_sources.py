from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import random
import re
import threading
import tracemalloc
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import pytest

from kglink.errors import RecordError, SourceError, UsageError
from kglink.sources import Line, Problems, Source, SourceLimits, compression, files
from kglink.sources.compression import zstd

Pack = Callable[[bytes], bytes]


def packed_by_zstd(data: bytes) -> bytes:
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: True})


PACKERS: dict[str, Pack] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": packed_by_zstd,
    "xz": lzma.compress,
}


@pytest.fixture(params=PACKERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pack(kind: str) -> Pack:
    return PACKERS[kind]


def read_lines(source: Source) -> list[Line]:
    return list(source.lines(Problems()))


def lines_of(data: bytes, limits: SourceLimits | None = None) -> list[Line]:
    with Source.from_bytes(data, name="a.txt", limits=limits) as source:
        return read_lines(source)


def skipped(data: bytes, limits: SourceLimits | None = None) -> tuple[list[Line], Problems]:
    problems = Problems("skip")
    with Source.from_bytes(data, name="a.txt", limits=limits) as source:
        return list(source.lines(problems)), problems


def noise(size: int) -> bytes:
    """Lines of text that hardly shrink, so that compressed offsets mean something."""
    chance = random.Random(7)
    return b"".join(b"%016x\n" % chance.getrandbits(64) for _ in range(size // 17))


# ---------------------------------------------------------------------------------- lines
def test_lines_are_split_at_newlines_alone() -> None:
    text = "a\u2028b\x0bc\x85d\r\n\n e\rf\n\r\n\r\r\nlast"
    expected = ["a\u2028b\x0bc\x85d", "", " e\rf", "", "\r", "last"]
    assert lines_of(text.encode()) == [Line(n, t) for n, t in enumerate(expected, 1)]


def test_a_bom_is_no_part_of_the_text() -> None:
    assert lines_of(b"\xef\xbb\xbfa\n\xef\xbb\xbfb") == [Line(1, "a"), Line(2, "\ufeffb")]


def test_a_wrongly_encoded_line_is_told_with_its_line_and_byte() -> None:
    data = "é\nok\ncaf".encode() + b"\xe9 au lait\nend\n"
    with pytest.raises(RecordError) as caught:
        lines_of(data)
    # 'é\n' is 3 bytes, 'ok\n' 3, 'caf' 3: the bad byte has offset 9.
    assert caught.value.where == "a.txt, line 3, byte 0xe9 at byte 9 of the unpacked file"
    assert "iconv -f WINDOWS-1252 -t UTF-8 a.txt > converted" in caught.value.hint
    lines, problems = skipped(data)
    assert [line.number for line in lines] == [1, 2, 4]
    assert problems.counts == {"not valid UTF-8": 1}


def test_the_bom_counts_in_byte_offsets() -> None:
    with pytest.raises(RecordError, match="byte 0xff at byte 4 "):
        lines_of(b"\xef\xbb\xbfa\xff\n")


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("a\n".encode("utf-32"), "UTF-32"),
        ("some text\n".encode("utf-16-le"), "UTF-16LE"),
        ("some text\n".encode("utf-16-be"), "UTF-16BE"),
    ],
)
def test_wide_encodings_are_named_with_the_fix(data: bytes, encoding: str) -> None:
    with pytest.raises(SourceError, match=f"a.txt is {encoding}, and kglink reads UTF-8") as error:
        lines_of(data)
    assert f"iconv -f {encoding} -t UTF-8 a.txt" in error.value.hint


def test_the_fix_of_a_wide_encoding_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some text\n", "utf-16-le")
    with Source.open_path(tmp_path / "a.txt") as source, pytest.raises(SourceError) as error:
        source.text()
    assert f"-t UTF-8 {tmp_path}/a.txt > converted" in error.value.hint


CAFE = "id,title\n1,Caf\u00e9\n2,\u4eac\n"


@pytest.mark.parametrize("order", ["le", "be"])
def test_utf_16_with_a_mark_is_read(tmp_path: Path, order: str) -> None:
    data = f"\ufeff{CAFE}".encode(f"utf-16-{order}")
    (tmp_path / "a.csv").write_bytes(data)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(data))
    sources = [
        Source.from_bytes(data),
        Source.from_stream(io.BytesIO(data)),
        Source.open_path(tmp_path / "a.csv.gz"),
        *Source.open_path(tmp_path).files("*.csv"),
    ]
    for source in sources:
        with source:
            assert [line.text for line in source.lines(Problems())] == CAFE.splitlines()
            assert source.text() == CAFE
            assert source.head.head == CAFE.encode()


@pytest.mark.parametrize("encoding", ["shift_jis", "gb18030", "utf-16-be", "utf-7"])
def test_an_encoding_is_read_that_is_named(encoding: str) -> None:
    text = "id,title\n1,\u4eac\n"
    limits = SourceLimits(encoding=encoding)
    with Source.from_bytes(text.encode(encoding), limits=limits) as source:
        assert [line.text for line in source.lines(Problems())] == text.splitlines()
    with Source.from_bytes(b"\xef\xbb\xbf" + CAFE.encode(), limits=limits) as marked:
        assert marked.text() == CAFE  # the mark says that it is UTF-8


def test_what_is_not_in_the_encoding_that_was_named_is_told_with_the_byte() -> None:
    limits = SourceLimits(encoding="cp1252")
    data = b"a" * 300_000 + b"\x81\n"  # cp1252 has no such byte
    with Source.from_bytes(data, name="a.csv", limits=limits) as source:
        with pytest.raises(SourceError, match=r"a\.csv is not cp1252: byte 300,000") as refused:
            list(source.lines(Problems("skip")))
        assert "--encoding" in refused.value.hint


@pytest.mark.parametrize(
    "name",
    [
        *("cp9999", "idna", "punycode", "base64", "rot13", "hex", "zlib", "bz2", "uu"),
        *("unicode_escape", "raw-unicode-escape", "undefined", "a\0b", "../x", "aliases"),
    ],
)
def test_what_is_no_encoding_of_text_files_is_refused(name: str) -> None:
    with Source.from_bytes(b"a\n") as source:
        with pytest.raises(UsageError, match="is no encoding of text files") as refused:
            source.read_as(name)
        assert "cp1252" in refused.value.hint


def test_binary_data_is_refused_at_once() -> None:
    with pytest.raises(SourceError, match=r"a\.txt is binary, not text \(a NUL at byte 2\)"):
        lines_of(b"ab\0cd\nef")


def test_a_nul_far_into_a_text_is_one_bad_line() -> None:
    data = b"fine\n" * 20_000 + b"ba\0d\nfine\n"
    lines, problems = skipped(data)
    assert (len(lines), problems.counts) == (20_001, {"a NUL byte": 1})
    assert problems.examples[0].startswith("a.txt, line 20001: a NUL byte")


@pytest.mark.parametrize("size", [9, 10, 11, 12, 13, 50])
@pytest.mark.parametrize("line_break", [b"\n", b"\r\n"])
@pytest.mark.parametrize("tail", [b"", b"b\n"])
def test_a_line_is_too_long_from_one_byte_past_the_limit(
    size: int, line_break: bytes, tail: bytes
) -> None:
    limits = SourceLimits(max_line_bytes=10)
    lines, problems = skipped(b"a\n" + b"x" * size + line_break + tail, limits)
    texts = [line.text for line in lines]
    middle = ["x" * size] if size <= 10 else []
    assert texts == ["a", *middle, *(["b"] if tail else [])]
    assert problems.total == (size > 10)
    assert [line.number for line in lines][-1] == (3 if tail else 2 if size <= 10 else 1)


def test_bytes_of_skipped_lines_count_in_offsets() -> None:
    limits = SourceLimits(max_line_bytes=10)
    _, problems = skipped(b"x" * 50 + b"\nab\xff\n", limits)
    assert "line 2, byte 0xff at byte 53 " in problems.examples[1]


def test_a_line_of_fifty_megabytes_is_never_held() -> None:
    data = gzip.compress(b"a\n" + b"x" * 50_000_000 + b"\nb\n", compresslevel=1)
    problems = Problems("skip")
    with Source.from_bytes(data, limits=SourceLimits(max_line_bytes=2**20)) as source:
        tracemalloc.start()
        try:
            texts = [line.text for line in source.lines(problems)]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (texts, problems.total) == (["a", "b"], 1)
    assert "standard input, line 2: the line is longer than 1,048,576 bytes" in problems.examples[0]
    assert peak < 8 * 2**20


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


# ----------------------------------------------------------------------------- head, stdin
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


def test_standard_input_is_larger_than_memory_would_hold(tmp_path: Path) -> None:
    data = (b"x" * 1023 + b"\n") * (17 * 2**10)  # 17 MiB, past what is kept in memory
    with Source.open_path("-", stdin=io.BytesIO(data), spool_dir=tmp_path) as source:
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


# ------------------------------------------------------------------------ paths and folders
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


@pytest.mark.parametrize(
    "data",
    [b"", gzip.compress(b"", mtime=0), bz2.compress(b""), packed_by_zstd(b""), lzma.compress(b"")],
    ids=["nothing", "gzip", "bzip2", "zstd", "xz"],
)
def test_an_empty_source(data: bytes) -> None:
    with pytest.raises(SourceError, match=r"a\.txt is empty"):
        lines_of(data)


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
        with pytest.raises(SourceError, match="is a folder where a file is wanted"):
            read_lines(source)


# ---------------------------------------------------------------------------- fingerprints
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


# -------------------------------------------------------------------------------- problems
def test_problems_stop_or_count() -> None:
    error = RecordError("bad", where="a, line 1")
    with pytest.raises(RecordError, match="a, line 1: bad") as stopped:
        Problems().report(RecordError("bad", where="a, line 1", hint="Mend it."))
    assert stopped.value.hint.startswith("Mend it. --on-error skip passes over such records")
    problems = Problems("skip", keep=2)
    for number in range(300):
        problems.report(RecordError(f"bad {number}", where=f"a, line {number}"))
        problems.report(error)
    assert problems.total == 600
    assert problems.counts["bad"] == 300
    assert len(problems.counts) == 101  # a hundred reasons and the rest
    assert problems.counts["other problems"] == 201
    assert problems.examples == ["a, line 0: bad 0", "a, line 1: bad"]


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


def test_reasons_are_counted_without_their_particulars() -> None:
    problems = Problems("skip")
    for number in range(300):
        told = f"it's at {number}..{number + 3}" if number % 2 else f"'a\\'{number}' for \"b\""
        problems.report(RecordError(f"{told} (column {number})", where=f"line {number}"))
    problems.report(RecordError("found 2 columns, a row has 7", where="line 9"))
    assert problems.counts == {
        "it's at ...": 150,
        "... for ...": 150,
        "found 2 columns, a row has 7": 1,
    }
    assert problems.examples[0] == "line 0: 'a\\'0' for \"b\" (column 0)"
