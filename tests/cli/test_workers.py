"""`kglink link --workers`: the answers of one process, whoever ends when."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Kglink

from kglink import Workspace

TEXT = "Isolde Heron saw a grey heron near the Skerrow Light. The seal came later. "


def texts(folder: Path, count: int) -> Path:
    made = folder / "texts"
    made.mkdir()
    for at in range(count):
        # Of different lengths, so that they are divided unevenly.
        (made / f"{at:02}.txt").write_text(TEXT * (1 + at * 37 % 90))
    return made


@pytest.mark.slow
def test_workers_give_the_answers_of_one_process_in_its_order(
    demo_copy: Path, kglink: Kglink, tmp_path: Path
) -> None:
    folder = texts(tmp_path, 24)
    alone = kglink("link", folder, "--format", "jsonl")
    both = kglink("link", folder, "--format", "jsonl", "--workers", "2")
    assert len(alone.out.splitlines()) == 24
    assert [json.loads(line) for line in both.out.splitlines()] == [
        json.loads(line) for line in alone.out.splitlines()
    ]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
def test_no_worker_starts_for_what_one_process_reads_together(demo_master: Path) -> None:
    before = children(os.getpid())
    with Workspace.open(demo_master, flags={"link.workers": 2}) as workspace:
        answers = workspace.link([TEXT] * 2, threshold=0.9)
        first = next(answers)
        assert children(os.getpid()) == before
        assert [first.links, *(one.links for one in answers)] == [first.links] * 2
    with Workspace.open(demo_master) as workspace:
        (alone,) = workspace.link(TEXT, threshold=0.9)
    assert [one.chosen for one in alone.links] == [one.chosen for one in first.links]


def test_what_cannot_be_divided_is_refused(demo_copy: Path, kglink: Kglink) -> None:
    told = kglink("link", "-", "--lines", "--workers", "2", stdin=TEXT, code=2).err
    assert "--lines" in told
    assert "--workers" in told
    assert "link.workers" in kglink("link", "-", "--workers", "1000", stdin=TEXT, code=2).err


def children(process: int) -> list[int]:
    """The processes that a process, whichever of its threads, has started."""
    found: list[int] = []
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            found += map(int, thread.read_text().split())
    return found


def started(
    folder: Path, output: Path, *, begun: bool = True
) -> tuple[subprocess.Popen[str], list[int]]:
    """A command that links with two workers, and its workers: begun, or at their first moment."""
    command = [sys.executable, "-m", "kglink_cli", "link", str(folder), "--workers", "2"]
    running = subprocess.Popen(
        [*command, "-o", str(output)], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until = time.monotonic() + 60
    while time.monotonic() < until:
        workers = children(running.pid)
        if begun:
            time.sleep(0.1)
            workers = [
                own for own in workers if "spawn_main" in Path(f"/proc/{own}/cmdline").read_text()
            ]
        if len(workers) == (2 if begun else 3):  # the third is a watcher of Python's own
            return running, workers
    raise AssertionError("no workers")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
def test_a_worker_that_is_killed_ends_the_command_in_a_sentence_and_nothing_is_lost(
    demo_copy: Path, kglink: Kglink, tmp_path: Path
) -> None:
    output, folder = tmp_path / "out.jsonl", tmp_path / "texts"
    folder.mkdir()
    for at in range(40):  # each is long enough to be a group of its own
        (folder / f"{at:02}.txt").write_text("the water went on, as it does. " * 1100 + TEXT)
    running, workers = started(folder, output)
    while not any(path.stat().st_size for path in tmp_path.glob(".out.jsonl.*.partial")):
        assert running.poll() is None
        time.sleep(0.01)
    os.kill(workers[0], signal.SIGKILL)
    _, told = running.communicate(timeout=120)
    assert running.returncode == 1, told
    found = re.search(r"a worker process was killed while it linked texts '(\d\d).txt' to", told)
    assert found
    assert "Traceback" not in told
    assert not output.exists()
    (draft,) = tmp_path.glob(".out.jsonl.*.partial")
    written = len(draft.read_text().splitlines())
    assert 0 < written < 40
    assert int(found[1]) == written
    assert f"after {written} document" in kglink("link", folder, "-o", output).err
    assert [json.loads(line)["id"] for line in output.read_text().splitlines()] == [
        f"{at:02}.txt" for at in range(40)
    ]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_command(
    demo_copy: Path, tmp_path: Path, how: signal.Signals
) -> None:
    running, workers = started(texts(tmp_path, 24), tmp_path / "out.jsonl")
    if how == signal.SIGINT:  # a terminal sends it to all of them
        os.killpg(running.pid, how)
    else:
        os.kill(running.pid, how)
    ended(running, workers, how)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
def test_a_command_ends_while_its_workers_are_being_started(
    demo_copy: Path, tmp_path: Path
) -> None:
    folder = texts(tmp_path, 24)
    for _ in range(3):
        running, workers = started(folder, tmp_path / "out.jsonl", begun=False)
        running.terminate()
        ended(running, workers, signal.SIGTERM)


def ended(running: subprocess.Popen[str], workers: list[int], how: signal.Signals) -> None:
    """Check that a command ends in order once it was told to, and its workers with it."""
    _, told = running.communicate(timeout=120)
    # In a worker that was just beginning Python itself speaks, of what it was to be sent.
    assert "Traceback" not in told or (how == signal.SIGKILL and "spawn_main" in told)
    for _ in range(600):
        if not any(Path(f"/proc/{own}").exists() for own in workers):
            return
        time.sleep(0.1)
    raise AssertionError(f"a worker outlives its command: {workers}")
