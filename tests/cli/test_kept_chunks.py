"""Chunks that were kept: they are known again, and damaged ones are not."""

from __future__ import annotations

import io

import pytest

from cluster_support import chunk
from kglink_cli.outputs import KeptChunks, name_of


def test_kept_chunks_are_known_again_and_written_in_order() -> None:
    file = io.BytesIO()
    kept = KeptChunks(file)
    first, second = name_of(chunk(0, "sooner")), name_of(chunk(1, "later"))
    kept.add(second, b"second\n")
    kept.add(first, b"first\n")
    file.seek(0)
    again = KeptChunks(file)
    assert len(again) == 2
    assert first in again
    others = [name_of(chunk(0, "another text")), name_of(chunk(2, "sooner"))]
    assert not any(name in again for name in others)
    again.add(others[1], b"third\n")
    again.write([first, others[0], second, others[1]], out := io.BytesIO())
    assert out.getvalue() == b"first\nsecond\nthird\n"


@pytest.mark.parametrize("lost", range(1, 20))
def test_a_chunk_that_was_cut_off_or_damaged_is_not_kept(lost: int) -> None:
    file = io.BytesIO()
    kept = KeptChunks(file)
    kept.add("a", b"whole\n")
    whole = file.tell()
    kept.add("b", b"cut off in here\n")
    for damaged in (file.getvalue()[:-lost], file.getvalue()[:-lost] + b"\0" * lost):
        again = KeptChunks(left := io.BytesIO(damaged))
        assert len(again) == 1
        assert len(left.getvalue()) == whole


def test_a_chunk_that_says_it_is_longer_than_its_file_is_not_kept() -> None:
    for length in ("9" * 14, "9" * 30):
        head = f'["a", {length}, "digest"]\n'.encode()
        assert len(KeptChunks(io.BytesIO(head + b"short\n"))) == 0
