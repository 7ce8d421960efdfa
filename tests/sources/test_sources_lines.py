"""Lines of a text: how they are split, and which are passed over with their number and byte."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from kglink.errors import RecordError, SourceError
from kglink.sources import Line, Problems, Source, SourceLimits
from source_lines import lines_of, skipped


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
    assert caught.value.where == "a.txt, line 3, byte 0xe9 at byte 9"
    assert "iconv -f WINDOWS-1252 -t UTF-8 a.txt > converted" in caught.value.hint
    assert "cp932 (Japanese)" in caught.value.hint
    lines, problems = skipped(data)
    assert [line.number for line in lines] == [1, 2, 4]
    assert problems.counts == {"not valid UTF-8": 1}


def test_a_place_in_a_packed_file_is_told_as_one() -> None:
    packed = Source.from_bytes(gzip.compress(b"ok\ncaf\xe9\n"), name="a.txt.gz")
    with pytest.raises(RecordError, match="line 2, byte 0xe9 at byte 6 of the unpacked file:"):
        list(packed.lines(Problems()))


def test_the_bom_counts_in_byte_offsets() -> None:
    with pytest.raises(RecordError, match="byte 0xff at byte 4:"):
        lines_of(b"\xef\xbb\xbfa\xff\n")


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
    assert "line 2, byte 0xff at byte 53:" in problems.examples[1]


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
