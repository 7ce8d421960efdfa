"""What the tests of reviews share: two KBs with overlaps, and a pseudo-terminal."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import termios
import time
from typing import Any, Self

from kglink.overlap.review.journal import ReviewPlan
from kglink.records import Entity, EntityId, Overlap, Verdict
from kglink.store import Store
from store_support import entity

LEFT, RIGHT = "doid", "ncit"
PLAN = ReviewPlan(LEFT, RIGHT, sample=6)
WAIT_S = 60


def pair(number: int, probability: float = 0.9, verdict: Verdict | None = None) -> Overlap:
    left, right = EntityId(LEFT, f"D:{number}"), EntityId(RIGHT, f"N:{number}")
    return Overlap(left, right, probability, {"name": 1.0, "description": 0.5}, verdict)


def kb_entities(prefix: str, description: str = "as it was") -> list[Entity]:
    described = f"What {prefix} is, {description}."
    disease = entity(f"{prefix}:top", "Disease")
    return [disease] + [
        entity(f"{prefix}:{number}", f"{prefix} {number}", "other name", description=described,
               type="disease", parents=(f"{prefix}:top",))
        for number in range(10)
    ]  # fmt: skip


def unstyled(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


def verdicts(store: Store) -> dict[str, Verdict]:
    return {one.left.key: one.verdict for one in store.overlaps(LEFT, RIGHT) if one.verdict}


class Terminal:
    """A review, that of overlaps or another, in a pseudo-terminal; its result goes to a pipe."""

    def __init__(
        self,
        *arguments: str,
        command: tuple[str, ...] = ("overlap", "review"),
        columns: int = 100,
        **variables: str,
    ) -> None:
        self._master, slave = os.openpty()
        termios.tcsetwinsize(slave, (40, columns))
        self.before = termios.tcgetattr(slave)
        # A shell that runs the tests in the background makes its children deaf to Ctrl-C, and
        # nohup to the end of the terminal.
        hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        hearing += "; signal.signal(signal.SIGHUP, signal.SIG_DFL)"
        code = f"{hearing}; from kglink_cli.main import run; run()"
        called = [sys.executable, "-c", code, *command, *arguments]
        self.process = subprocess.Popen(
            called,
            stdin=slave,
            stderr=slave,
            stdout=subprocess.PIPE,
            env=os.environ | {"TERM": "xterm", "COLUMNS": str(columns)} | variables,
            text=True,
        )
        self._slave = slave
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()
        os.close(self._master)
        os.close(self._slave)

    def expect(self, text: str) -> str:
        """Wait until this is shown; what was shown up to it."""
        until = time.monotonic() + WAIT_S
        while text not in self.shown:
            ready, _, _ = select.select([self._master], [], [], max(0, until - time.monotonic()))
            assert ready, f"{text!r} is not shown:\n{self.shown}"
            self.shown += os.read(self._master, 4096).decode()
        seen, _, self.shown = self.shown.partition(text)
        return seen

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def answer(self, keys: str) -> None:
        """Each key once its pair is shown."""
        for key in keys:
            self.expect("[q]uit")
            self.press(key)

    def end(self) -> tuple[int, str]:
        """The exit code and the result, once the command has ended."""
        out, _ = self.process.communicate(timeout=WAIT_S)
        while select.select([self._master], [], [], 0)[0]:
            self.shown += os.read(self._master, 4096).decode()
        return self.process.returncode, out

    def settings(self) -> list[Any]:
        """How the terminal is set."""
        return termios.tcgetattr(self._slave)

    def set(self, settings: list[Any]) -> None:
        """Set the terminal."""
        termios.tcsetattr(self._slave, termios.TCSADRAIN, settings)
