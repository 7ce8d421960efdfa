"""Encodings: UTF-16 with a mark is read, others where they are named, and the rest is told."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from kglink.errors import SourceError, UsageError
from kglink.sources import Problems, Source, SourceLimits
from source_lines import lines_of


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


def test_xml_in_utf_16_says_utf_8_once_it_is_that() -> None:
    text = '<?xml version="1.0" encoding="{}"?>\n<a>encoding="utf-16" \u4eac</a>'
    with Source.from_bytes(text.format("UTF-16").encode("utf-16")) as source:
        assert source.text() == text.format("utf-8")


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


def test_who_reads_text_is_given_no_binary_file() -> None:
    source = Source.from_bytes(b"a\0b" * 20)
    with pytest.raises(SourceError, match="binary, not text"):
        source.open_text()
    with source.open() as stream:
        assert stream.read(3) == b"a\0b"
