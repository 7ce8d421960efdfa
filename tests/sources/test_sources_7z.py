"""Archives of 7-zip: read as a stream, and refused with one message."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import sys
import tracemalloc
import zlib
from collections.abc import Mapping
from pathlib import Path

import py7zr
import pytest
from conftest import Kglink

from kglink.errors import KglinkError, SourceError
from kglink.sources import Line, Problems, Source, SourceLimits, files
from mediawiki_dumps import adapter, export, page

#: What py7zr calls the filters of its archives.
Filters = list[dict[str, int]]
METHODS: dict[str, Filters] = {
    "LZMA2": [{"id": py7zr.FILTER_LZMA2, "preset": 1}],
    "LZMA": [{"id": py7zr.FILTER_LZMA, "preset": 1}],
    "bzip2": [{"id": py7zr.FILTER_BZIP2}],
    "Deflate": [{"id": py7zr.FILTER_DEFLATE}],
    "stored": [{"id": py7zr.FILTER_COPY}],
    "BCJ and LZMA2": [{"id": py7zr.FILTER_X86}, {"id": py7zr.FILTER_LZMA2, "preset": 1}],
}


def seven_zip(
    data: bytes,
    name: str = "dump.xml",
    *,
    filters: Filters | None = None,
    others: Mapping[str, bytes] | None = None,
) -> bytes:
    """An archive of one file, or of more."""
    packed = io.BytesIO()
    with py7zr.SevenZipFile(packed, "w", filters=filters or METHODS["Deflate"]) as archive:
        archive.writestr(data, name)
        for other, content in (others or {}).items():
            archive.writestr(content, other)
    return packed.getvalue()


def noise(size: int) -> bytes:
    chance = random.Random(7)
    return b"".join(b"%016x\n" % chance.getrandbits(64) for _ in range(size // 17))


def read(data: bytes, limits: SourceLimits | None = None) -> bytes:
    with Source.from_bytes(data, name="a.7z", limits=limits) as source, source.open() as stream:
        return stream.read()


def refused(data: bytes) -> SourceError:
    with pytest.raises(SourceError) as caught:
        read(data)
    assert type(caught.value) is SourceError
    assert caught.value.hint
    return caught.value


# ---------------------------------------------------------------------------------- reading
@pytest.mark.parametrize("method", METHODS)
def test_the_only_file_is_read(method: str) -> None:
    data = noise(100_000)
    assert read(seven_zip(data, filters=METHODS[method])) == data


def test_it_is_known_by_its_content_and_read_like_the_others(tmp_path: Path) -> None:
    path = tmp_path / "entities.jsonl.7z"
    path.write_bytes(seven_zip(b"{}\nsecond\n"))
    misnamed = tmp_path / "misnamed.txt"
    misnamed.write_bytes(path.read_bytes())
    with Source.open_path(path) as source:
        assert source.head == ("entities.jsonl", b"{}\nsecond\n", path)
        assert list(source.lines(Problems())) == [Line(1, "{}"), Line(2, "second")]
        fingerprint = source.fingerprint()
    with Source.open_path(misnamed) as source:
        assert source.head.name == "misnamed.txt"
        assert source.fingerprint() == fingerprint


def test_standard_input_is_kept_and_read_by_two_readers_at_once() -> None:
    data = noise(3_000_000)
    packed = seven_zip(data)
    with Source.open_path("-", stdin=io.BytesIO(packed)) as source:
        assert source.head.head == data[: 2**16]
        with source.open() as first, source.open() as second, source.open_raw() as raw:
            read_twice = [(first.read(2**16), second.read(2**16), raw.read(2**12))]
            while read_twice[-1][0]:
                read_twice.append((first.read(2**16), second.read(2**16), raw.read(2**12)))
    one, other, packed_bytes = (b"".join(column) for column in zip(*read_twice, strict=True))
    assert one == other == data
    assert packed.startswith(packed_bytes)


def test_an_archive_in_a_folder_is_one_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "b.txt.7z").write_bytes(seven_zip(b"packed"))
    (tmp_path / "a.txt").write_bytes(b"plain")
    with Source.open_path(tmp_path) as source:
        assert [file.head.head for file in source.files()] == [b"plain", b"packed"]


def test_folders_in_an_archive_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "in" / "wiki").mkdir(parents=True)
    (tmp_path / "in" / "wiki" / "dump.xml").write_bytes(b"text")
    packed = io.BytesIO()
    with py7zr.SevenZipFile(packed, "w") as archive:
        archive.writeall(tmp_path / "in", "in")
    assert read(packed.getvalue()) == b"text"


def test_progress_counts_the_bytes_of_the_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.7z"
    path.write_bytes(seven_zip(noise(5_000_000)))
    with Source.open_path(path) as source:
        seen = [source.bytes_read for _ in source.lines(Problems())]
        assert seen == sorted(seen)
        assert 0 < seen[0] < source.bytes_total // 2
        assert len(set(seen)) > 4
        assert source.bytes_read == source.bytes_total


@pytest.mark.parametrize(
    ("data", "method"),
    [(noise(3_000_000) * 10, "Deflate"), (b"\0" * 100_000_000, "LZMA2")],
    ids=["text", "zeros"],
)
def test_an_archive_is_never_held_in_memory(data: bytes, method: str, tmp_path: Path) -> None:
    path = tmp_path / "a.7z"
    path.write_bytes(seven_zip(data, filters=METHODS[method]))
    size = len(data)
    del data
    tracemalloc.start()
    try:
        with Source.open_path(path) as source, source.open() as stream:
            while piece := stream.read(2**20):
                size -= len(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == 0
    assert peak < 48 * 2**20  # the first portion of zeros is 2 KiB, which become 14 MB


# --------------------------------------------------------------------------------- refusals
def test_an_archive_of_several_files_names_them_and_the_fix() -> None:
    error = refused(seven_zip(b"1", "a.xml", others={"b c.xml": b"2"}))
    assert error.message == (
        "a.7z holds 2 files, and kglink reads archives of one: 'a.xml', 'b c.xml'"
    )
    assert error.hint == "Pipe one in: 7z x -so -- a.7z a.xml | kglink ... -"
    others = {f"{number}.xml": b"text" for number in range(6)}
    assert refused(seven_zip(b"1", "a.xml", others=others)).message.endswith("'3.xml' and 2 more")


def test_two_files_of_one_name_are_two_files() -> None:
    packed = io.BytesIO()
    with py7zr.SevenZipFile(packed, "w") as archive:
        archive.writestr(b"1", "a.xml")
        archive.writestr(b"2", "a.xml")
    assert "holds 2 files" in refused(packed.getvalue()).message


def test_an_archive_without_files() -> None:
    packed = io.BytesIO()
    with py7zr.SevenZipFile(packed, "w"):
        pass
    assert "is an archive without a file in it" in refused(packed.getvalue()).message


def test_an_archive_of_an_empty_file_is_empty() -> None:
    with (
        Source.from_bytes(seven_zip(b""), name="a.7z") as source,
        pytest.raises(SourceError, match=r"a\.7z is empty"),
    ):
        list(source.lines(Problems()))


def test_a_symbolic_link_is_no_file(tmp_path: Path) -> None:
    link = tmp_path / "dump.xml"
    link.symlink_to("/etc/passwd")
    packed = io.BytesIO()
    with py7zr.SevenZipFile(packed, "w") as archive:
        archive.write(link, "dump.xml")
    assert "without a file in it" in refused(packed.getvalue()).message


@pytest.mark.parametrize("names_too", [False, True])
def test_an_encrypted_archive(names_too: bool) -> None:
    packed, word = io.BytesIO(), "key"
    with py7zr.SevenZipFile(packed, "w", password=word, header_encryption=names_too) as archive:
        archive.writestr(b"secret", "a.xml")
    error = refused(packed.getvalue())
    assert error.message == "a.7z is encrypted, and kglink reads archives without a password"
    assert "7z x -so a.7z | kglink ... -" in error.hint


@pytest.mark.parametrize(
    ("filters", "name"),
    [
        ([{"id": py7zr.FILTER_PPMD, "order": 6, "mem": 16}], "PPMd"),
        ([{"id": py7zr.FILTER_ZSTD, "level": 3}], "zstd"),
        ([{"id": py7zr.FILTER_BROTLI, "level": 3}], "04f71102"),
    ],
)
def test_a_rare_method_is_named(filters: Filters, name: str) -> None:
    error = refused(seven_zip(b"text", filters=filters))
    assert f"is packed by the method {name}, which kglink does not read" in error.message
    assert "7z x -so" in error.hint


@pytest.mark.parametrize("name", ["../out.xml", "in/../../out.xml", "/out.xml", "C:/out.xml"])
def test_a_path_that_leads_out_is_refused_and_nothing_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    packed = io.BytesIO()
    with py7zr.SevenZipFile(packed, "w") as archive:
        archive._writef(io.BytesIO(b"text"), name)  # `writef` would refuse such a name itself
    error = refused(packed.getvalue())
    assert error.message == f"a.7z holds a file whose path leads out of the archive: {name!r}"
    assert read(seven_zip(b"text", "in/dump.xml")) == b"text"
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", inside]


@pytest.mark.parametrize("kept", [8, 31, 40, 5_000, -1])
def test_a_truncated_archive_says_how_much_is_missing(kept: int) -> None:
    packed = seven_zip(noise(30_000))
    cut = packed[:kept]
    whole = len(packed) if len(cut) >= 32 else 32
    message = refused(cut).message
    assert message == f"a.7z is cut short: it has {len(cut):,} bytes of {whole:,}"


def test_a_damaged_content_says_where() -> None:
    packed = bytearray(seven_zip(noise(1_000_000), filters=METHODS["stored"]))
    packed[500_000] ^= 0xFF
    error = refused(bytes(packed))
    assert error.message.startswith("a.7z is damaged: ")
    assert "near byte" in error.message
    assert error.hint == "Copy or download it again; 7z t a.7z checks it."


def test_a_wrong_checksum_is_noticed_at_the_end() -> None:
    packed = bytearray(seven_zip(b"some text\n", filters=METHODS["stored"]))
    packed[packed.index(b"some")] ^= 1
    assert "its checksum is not that of its content" in refused(bytes(packed)).message


def test_a_damaged_start() -> None:
    packed = bytearray(seven_zip(b"text"))
    packed[14] ^= 1
    assert "its start is not as it was written" in refused(bytes(packed)).message


def test_damage_anywhere_is_one_message_or_none() -> None:
    """With checksums set right again, so that what is damaged is believed."""
    data, chance = noise(2_000), random.Random(1)
    for packed in (seven_zip(data, filters=filters) for filters in METHODS.values()):
        for _ in range(60):
            broken = bytearray(packed)
            broken[chance.randrange(32, len(packed))] = chance.randrange(256)
            place, size = struct.unpack("<QQ", broken[12:28])
            broken[28:32] = struct.pack("<I", zlib.crc32(broken[32 + place : 32 + place + size]))
            broken[8:12] = struct.pack("<I", zlib.crc32(broken[12:32]))
            try:
                found = read(bytes(broken))
            except KglinkError as error:
                assert "a.7z" in error.message  # noqa: PT017 - either is right
            else:
                assert found == data


def test_an_archive_in_a_compressed_file_is_named() -> None:
    with (
        Source.from_bytes(gzip.compress(seven_zip(b"text")), name="a.txt") as source,
        pytest.raises(SourceError, match="is packed with 7z"),
    ):
        list(source.lines(Problems()))


def test_a_bomb_is_stopped() -> None:
    limits = SourceLimits(max_expansion=50, free_expansion=2**18)
    packed = seven_zip(b"\n" * 40_000_000)
    with pytest.raises(SourceError, match="grows to more than 50 times its size") as caught:
        read(packed, limits)
    assert "ingest.max_expansion" in caught.value.hint


def test_without_py7zr_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = seven_zip(b"text")
    monkeypatch.setitem(sys.modules, "py7zr", None)
    monkeypatch.delitem(sys.modules, "kglink.sources.seven_zip", raising=False)
    error = refused(packed)
    assert "py7zr, which reads them, is not installed" in error.message
    assert error.hint == "pip install 'kglink[7z]', or pipe it in: 7z x -so a.7z | kglink ... -"


# ---------------------------------------------------------------------------- stopped readers
def test_a_reader_that_stops_early_reads_no_more_than_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "a.7z"
    path.write_bytes(seven_zip(noise(5_000_000)))
    with Source.open_path(path) as source, source.open() as stream:
        assert stream.read(10) == noise(20)[:10]
        assert source.bytes_read < path.stat().st_size // 2


def test_an_error_of_the_disk_reaches_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = seven_zip(noise(3_000_000))

    class Breaking(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if 10_000 < self.tell() < len(packed) - 200:
                raise OSError(5, "Input/output error")
            return super().read(size)

    with (
        Source("a.7z", size=len(packed), opener=lambda: Breaking(packed)) as source,
        source.open() as stream,
        pytest.raises(SourceError, match=r"cannot read a\.7z: Input/output error"),
    ):
        stream.read()


def test_a_link_beside_the_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "link.xml").symlink_to("dump.xml")
    (tmp_path / "dump.xml").write_bytes(noise(100_000))
    for names in (("link.xml", "dump.xml"), ("dump.xml", "link.xml")):
        packed = io.BytesIO()
        with py7zr.SevenZipFile(packed, "w") as archive:
            for name in names:
                archive.write(tmp_path / name, name)
        assert read(packed.getvalue()) == noise(100_000)


# ------------------------------------------------------------------------------- end to end
def test_add_kb_reads_a_dump(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KGLINK_WORKSPACE", raising=False)
    pages = [page(n, f"Lamp {n}", f"'''Lamp {n}''' is a [[Lamp 1|lamp]].") for n in range(1, 4)]
    Path("lamps.xml.7z").write_bytes(seven_zip(export(*pages).encode(), "lamps.xml"))
    added = json.loads(kglink("add-kb", "lamps", "lamps.xml.7z", "--json").out)
    assert (added["adapter"], added["added"]) == ("kglink/wikipedia", 3)
    again = json.loads(kglink("add-kb", "lamps", "lamps.xml.7z", "--json").out)
    assert (again["added"], again["unchanged"]) == (0, 3)
    Path("lamps.xml.7z").write_bytes(seven_zip(export(*pages).encode())[:-9])
    ended = kglink("add-kb", "lamps", "lamps.xml.7z", code=1)
    assert "lamps.xml.7z is cut short" in ended.err


def test_a_dump_reads_as_it_does_unpacked() -> None:
    pages = [page(n, f"Lamp {n}", f"'''Lamp {n}''' is a [[Lamp 1|lamp]].") for n in range(1, 99)]
    plain = export(*pages).encode()
    found = []
    for data in (plain, seven_zip(plain)):
        with Source.from_bytes(data, name="lamps.xml") as source:
            found.append(list(adapter().read(source, Problems())))
    assert found[0] == found[1]
    assert len(found[0]) == 98


def test_large_archives_are_fingerprinted_by_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FINGERPRINT_BYTES", 4 * 2**20)
    packed = seven_zip(noise(5_000_000))
    first = Source.from_bytes(packed).fingerprint()
    assert first == Source.from_bytes(packed).fingerprint()
    assert first != Source.from_bytes(packed[:-1] + bytes([packed[-1] ^ 1])).fingerprint()
