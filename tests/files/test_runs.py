"""Records sorted on disk, and arrays written piece by piece, against all of them in memory."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.files.runs import SortedRuns, merged
from kglink.files.tables import ColumnWriter, StringTable, StringWriter, map_array

HASHES = st.sampled_from([0, 1, 2**56 - 1, 2**56, 2**63, 2**64 - 1])
PIECES = st.lists(st.lists(HASHES, max_size=9), max_size=9)


@given(PIECES, st.integers(1, 40))
def test_records_come_in_the_order_of_hashes_and_of_coming(
    pieces: list[list[int]], most: int
) -> None:
    with TemporaryDirectory() as made:
        runs = SortedRuns(Path(made) / "own", [np.uint32, np.int8], most)
        count = 0
        for piece in pieces:
            numbers = np.arange(count, count + len(piece))
            runs.add(np.array(piece, dtype=np.uint64), numbers, numbers % 3)
            count += len(piece)
        blocks = [own for (own,) in merged(runs, most=most)]
        hashes, numbers, thirds = (
            np.concatenate(column).tolist() for column in zip(*blocks, strict=True)
        )
    given_hashes = [one for piece in pieces for one in piece]
    order = sorted(range(count), key=given_hashes.__getitem__)
    assert numbers == order
    assert hashes == [given_hashes[at] for at in order]
    assert thirds == [at % 3 for at in order]
    # All records of a hash are in one block.
    seen = [set(own[0].tolist()) for own in blocks]
    assert sum(map(len, seen)) == len(set(given_hashes))


def test_blocks_of_several_runs_are_of_the_same_hashes_and_bounded(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    left, right = (SortedRuns(tmp_path / name, [], 100) for name in ("left", "right"))
    for _ in range(30):
        left.add(draw.integers(0, 2**64, 70, dtype=np.uint64))
        right.add(draw.integers(0, 2**64, 7, dtype=np.uint64))
    last = -1
    blocks = 0
    for (own,), (other,) in merged(left, right, most=200):
        both = np.concatenate([own, other])
        assert len(both) <= 200
        assert not len(both) or last < int(both.min())
        last = int(both.max(initial=0)) or last
        blocks += 1
    assert blocks >= 2310 // 200


def test_runs_of_a_killed_process_are_not_read(tmp_path: Path) -> None:
    for number in (1, 2):
        runs = SortedRuns(tmp_path / "own", [], most=1)
        runs.add(np.array([number], dtype=np.uint64))
        assert runs.counts().sum() == 1
    assert [own.tolist() for ((own,),) in merged(runs)] == [[2]]


@pytest.mark.parametrize("count", [0, 1, 9, 20_000])
@pytest.mark.parametrize("kind", [np.float32, np.int64, np.uint8])
def test_a_column_is_the_file_that_numpy_writes(tmp_path: Path, count: int, kind: type) -> None:
    values: npt.NDArray[Any] = (np.arange(count) % 100).astype(kind)
    with ColumnWriter(tmp_path / "own.npy", kind) as column:
        for value in values[: count // 2].tolist():
            column.append(value)
        column.add(values[count // 2 :])
    np.save(tmp_path / "plain.npy", values)
    assert (tmp_path / "own.npy").read_bytes() == (tmp_path / "plain.npy").read_bytes()
    assert map_array(tmp_path / "own.npy").tolist() == values.tolist()


@pytest.mark.skipif(not Path("/proc/self/smaps").is_file(), reason="asks Linux for the memory")
def test_a_table_that_was_read_to_its_end_takes_no_memory(tmp_path: Path) -> None:
    with StringWriter(tmp_path / "names") as writer:
        for number in range(200_000):
            writer.add(f"a name that is {number:080}")
    table = StringTable(tmp_path / "names")
    before = mapped_kilobytes(tmp_path)
    assert sum(map(len, table)) == 200_000 * 95
    assert mapped_kilobytes(tmp_path) - before < 1000
    assert table[199_999].endswith("199999")


def mapped_kilobytes(folder: Path) -> int:
    """The memory that mapped files of a folder take in this process."""
    total, is_own = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            is_own = str(folder) in line
        elif is_own and name == "Rss:":
            total += int(rest[0])
    return total
