"""The pairs of a search on the disk: what is found again, and what a full disk is told as."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kglink.errors import StoreError
from kglink.overlap.scratch import ScratchPair, ScratchPairs

MANY = 20_000


#: Proposes many pairs and says what files it has open.
CHILD = """
import os
from contextlib import closing
from kglink.overlap.scratch import ScratchPairs
with closing(ScratchPairs(cache_kib=64)) as pairs:
    pairs.propose(((f"left {n:06}", f"right {n:06}") for n in range(20_000)), 0)
    for number in range(3, 64):
        try:
            print(os.fstat(number).st_size, os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass
    os.kill(os.getpid(), 9)
"""


def many() -> Iterator[tuple[str, str]]:
    return ((f"left {number:06}", f"right {number:06}") for number in range(MANY))


def test_pairs_that_are_proposed_twice_are_one() -> None:
    with closing(ScratchPairs()) as pairs:
        pairs.propose([("b", "1"), ("a", "2"), ("b", "1")], 0)
        pairs.propose([("b", "1")], 2)
        assert len(pairs) == 2
        (batch,) = pairs.batches()
        assert batch == [ScratchPair("a", "2", 1), ScratchPair("b", "1", 5)]
        assert pairs.probability("b", "1") is None
        pairs.put(one._replace(probability=0.5, evidence={"name": 1.0}) for one in batch)
        pairs.finish_pass()
        pairs.put([batch[0]._replace(probability=0.9)], second=True)
        assert pairs.partners("right", "2") == {"a": 0.5}
        pairs.take_second()
        assert pairs.partners("right", "2") == {"a": 0.9}
        assert [one.left for batch in pairs.batches(0.6) for one in batch] == ["a"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the open files of a process")
def test_a_process_that_is_killed_leaves_no_file(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", CHILD],
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == -signal.SIGKILL, told.stderr
    sizes = [int(line.split()[0]) for line in told.stdout.splitlines() if str(tmp_path) in line]
    assert max(sizes) > 100_000  # it has left the memory
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told() -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(ScratchPairs(cache_kib=64)) as pairs:
        resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
        try:
            with pytest.raises(StoreError, match="cannot keep the pairs of this search") as told:
                pairs.propose(many(), 0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "TMPDIR" in told.value.hint
