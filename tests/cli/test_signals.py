"""Ctrl-C, SIGTERM and SIGHUP sent to the real command: one line, the right code, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Kglink

from kglink import Workspace
from kglink.store import Store

STOPPED = "error  stopped: what was done stays; run the same command to go on"
WAIT_S = 120


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace of its own, the current folder."""
    with Workspace.open(tmp_path, create=True):
        pass
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KGLINK_WORKSPACE", raising=False)
    return tmp_path


def start(*arguments: str) -> subprocess.Popen[str]:
    """The command in a process of its own that hears all signals, as one of a terminal does."""
    hearing = (
        "import signal as s; s.signal(s.SIGINT, s.default_int_handler); "
        "s.signal(s.SIGTERM, s.SIG_DFL); s.signal(s.SIGHUP, s.SIG_DFL)"
    )
    program = f"{hearing}; from kglink_cli.__main__ import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def hears(process: subprocess.Popen[str]) -> bool:
    """Whether the process has begun to hear SIGTERM."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1))


def has_open(process: subprocess.Popen[str], name: str) -> bool:
    """Whether the process has a file of this name open."""
    found = []
    for one in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed while it is looked at
            found.append(one.readlink().name)
    return name in found


def ended(
    process: subprocess.Popen[str], number: signal.Signals, times: int = 1, told: str = STOPPED
) -> str:
    """Send a signal; what the command printed before its one last line."""
    for _ in range(times):
        process.send_signal(number)
    _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if line]
    assert lines[-1] == told
    assert err.count("stopped") == 1
    return err


def things(count: int) -> str:
    return "".join(json.dumps({"id": f"{at:06}", "title": f"Thing {at}"}) + "\n"
                   for at in range(count))  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_while_the_command_is_loaded(here: Path, number: signal.Signals) -> None:
    process = start("kbs")
    wait_until(lambda: hears(process))
    ended(process, number)


@pytest.mark.slow
def test_while_a_kb_is_read(here: Path, kglink: Kglink) -> None:
    (here / "many.jsonl").write_text(things(30_000))
    process = start("add-kb", "many", "many.jsonl")
    log = here / "kglink.db-wal"
    wait_until(lambda: log.exists() and log.stat().st_size > 2**20)  # some batches are committed
    ended(process, signal.SIGTERM)
    ran = json.loads(kglink("add-kb", "many", "many.jsonl", "--json").out)
    assert ran["resumed_from"] > 0
    assert ran["added"] == 30_000


@pytest.mark.slow
def test_twice_while_a_space_is_built(here: Path, kglink: Kglink) -> None:
    (here / "many.jsonl").write_text(things(4_000))
    kglink("add-kb", "many", "many.jsonl")
    process = start("build")
    wait_until(lambda: any((here / "spaces").glob("default/segments/.draft-*/text.npy")))
    ended(process, signal.SIGINT, times=2)
    with Workspace.open(here) as workspace:
        assert workspace.joint_space.folder.published_manifest().names_alone == ("many",)
        assert workspace.joint_space.job().answers_by_names()


def test_again_while_python_ends(here: Path) -> None:
    """The second Ctrl-C of a hasty hand comes after the command; it says nothing more."""
    program = """
import atexit, os, signal
from kglink_cli.__main__ import main
from kglink_cli import kbs
signal.signal(signal.SIGINT, signal.default_int_handler)
interrupt = lambda *_: os.kill(os.getpid(), signal.SIGINT)
kbs.open_workspace = interrupt
atexit.register(interrupt)
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "kbs"],
        check=False,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert (done.returncode, done.stderr.strip()) == (130, STOPPED)


@pytest.mark.parametrize("where", ["kbs.open_workspace", "main.run"])
def test_where_a_library_makes_another_error_of_it(here: Path, where: str) -> None:
    """Pydantic does so while it builds its classes, and Rust while it reads weights."""
    program = f"""
import signal, sys, types
from kglink_cli.__main__ import main
signal.signal(signal.SIGTERM, signal.SIG_DFL)
def library(*_):
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:
        raise ValueError("damaged") from None
if "{where}" == "main.run":
    class Module(types.ModuleType):
        __getattr__ = library
    sys.modules["kglink_cli.main"] = Module("kglink_cli.main")
else:
    from kglink_cli import kbs
    kbs.open_workspace = library
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "kbs"],
        check=False, capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr.strip()) == (143, STOPPED)


@pytest.mark.slow
def test_while_texts_are_linked(demo: Path) -> None:
    process = start("link", "-", "--lines")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("The lighthouse.\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert json.loads(answer)["text"] == "The lighthouse."
    ended(process, signal.SIGTERM)


@pytest.mark.slow
def test_while_overlaps_are_looked_for(demo_copy: Path) -> None:
    process = start("overlap", "--fresh")
    wait_until(lambda: has_open(process, "kglink.db"))
    ended(process, signal.SIGHUP)
    with Workspace.open(demo_copy) as workspace:
        assert isinstance(workspace.store, Store)
        assert list(workspace.store.overlaps("encyclopedia", "lanternfall"))


@pytest.mark.slow
@pytest.mark.parametrize("named", [(), ("--run", "mine")])
def test_while_a_model_learns(demo_copy: Path, named: tuple[str, ...]) -> None:
    """The same command would begin another run."""
    kbs = ("--source-kb", "encyclopedia", "--target-kb", "lanternfall")
    process = start("finetune", "--recipe", "small", "--sources", "T", *kbs, *named)
    wait_until(lambda: any((demo_copy / "runs").glob("*/curve.jsonl")))
    goes_on = " ".join(("kglink finetune --resume", *named))
    told = f"error  stopped: what was done stays; `{goes_on}` goes on with the run"
    ended(process, signal.SIGINT, told=told)


@pytest.mark.slow
def test_before_a_model_learns(demo_copy: Path) -> None:
    """There is no run yet that --resume could go on with."""
    kbs = ("--source-kb", "encyclopedia", "--target-kb", "lanternfall")
    process = start("finetune", "--recipe", "small", "--sources", "T", *kbs)
    wait_until(lambda: any((demo_copy / "runs").glob("*/*")))
    ended(process, signal.SIGINT)


def test_a_signal_that_is_ignored_stays_so(here: Path) -> None:
    ignoring = "import signal as s; s.signal(s.SIGHUP, s.SIG_IGN)"
    checked = "from kglink_cli.interrupts import heed_interrupts as h; h(); "
    program = f"{ignoring}; {checked}print(s.getsignal(s.SIGHUP) is s.SIG_IGN)"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ
    )
    assert found.stdout == "True\n"
