"""Ctrl-C: the first stops in order, the second at once; both end in one message, no traceback."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn

STOPPED = 130
MESSAGE = "stopped"
HINT = "What was committed stays; run the same command to go on."

_told = False


def heed_interrupts() -> None:
    """Hear Ctrl-C from now on, unless whoever started this process wants it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)


def forget_interrupts() -> None:
    """Leave Ctrl-C to others again, unless it was pressed."""
    global _told  # noqa: PLW0603 - as below
    _told = False
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def told_of_stop() -> bool:
    """Whether the message was printed before; from now on it was."""
    global _told
    before, _told = _told, True
    return before


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGINT, _end)
    raise KeyboardInterrupt


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End now, whatever is being closed; what is half-written goes on at the next run."""
    if not told_of_stop():
        os.write(2, f"error  {MESSAGE}\n       {HINT}\n".encode())
    os._exit(STOPPED)
