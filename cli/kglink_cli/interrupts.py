"""Ctrl-C, SIGTERM and SIGHUP: the first stops in order, the second at once.

Both end in one line and no traceback, with the exit code that a shell expects.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from os import _exit as exit_now
from types import FrameType
from typing import Any, NoReturn

_SAME_COMMAND = "run the same command to go on"
#: The signals that end a command, and what Python does with each by itself.
_DEFAULTS: Mapping[signal.Signals, Callable[[int, FrameType | None], Any] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
#: Seconds before a lost interrupt is sent again.
_AGAIN_S = 0.05

_stop_is_told = False
_signal: int | None = None
_go_on = _SAME_COMMAND


def heed_interrupts() -> None:
    """Hear signals from now on, unless whoever started this process wants them ignored."""
    for number, default in _DEFAULTS.items():
        if signal.getsignal(number) == default:
            signal.signal(number, _stop)
    sys.unraisablehook = _unraisable


def forget_interrupts() -> None:
    """Leave signals to others again, unless one came."""
    global _stop_is_told, _signal, _go_on
    if _end not in map(signal.getsignal, _DEFAULTS):
        _stop_is_told, _signal, _go_on = False, None, _SAME_COMMAND
    for number, default in _DEFAULTS.items():
        if signal.getsignal(number) == _stop:
            signal.signal(number, default)
    sys.unraisablehook = sys.__unraisablehook__


def stop_at_once() -> None:
    """Let the first signal end the process: it waits where no exception comes."""
    for number in _DEFAULTS:
        if signal.getsignal(number) == _stop:
            signal.signal(number, _end)


def go_on_by(words: str) -> None:
    """Name the command that resumes this one, if it is another."""
    global _go_on  # noqa: PLW0603 - one command per process
    _go_on = words


def stop_came() -> bool:
    """Whether a signal asked for a stop: libraries make other errors of the exception."""
    return _signal is not None


def stopped_code() -> int:
    """The exit code of a command that a signal stopped: 130 of Ctrl-C, 143 of SIGTERM."""
    return 128 + (_signal or signal.SIGINT)


def _write(message: str) -> None:
    """Print an error without any library: the program may be at its end, or not begun."""
    os.write(2, f"error  {message}\n".encode())


def tell_of_stop(show: Callable[[str], object] = _write) -> None:
    """Say, once, that the command was stopped, and how to resume it."""
    global _stop_is_told
    before, _stop_is_told = _stop_is_told, True
    if not before:
        show(f"stopped: what was done stays; {_go_on}")


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    global _signal  # noqa: PLW0603 - one command per process
    _signal = number
    for one in _DEFAULTS:
        signal.signal(one, _end)
    # Libraries log with a traceback what a stop interrupts while they close their connections.
    logging.disable(logging.CRITICAL)
    raise KeyboardInterrupt


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End now, whatever is being closed; what is half-written goes on at the next run."""
    tell_of_stop()
    exit_now(128 + number)


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    """Send the stop again if it was lost while an object was being deleted."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    for number in _DEFAULTS:
        signal.signal(number, _stop)
    again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), _signal or signal.SIGINT))
    again.daemon = True
    again.start()
