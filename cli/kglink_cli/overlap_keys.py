"""Single keys from a terminal, without waiting for Enter, and lines that are typed key by key."""

from __future__ import annotations

import codecs
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NoReturn

#: Seconds after an escape byte within which the rest of an arrow's or function key's must come.
_ESCAPE_WAIT_S = 0.05


@contextmanager
def keys() -> Iterator[Iterator[str]]:
    """The keys that are typed, until the input ends; the terminal is set back afterwards."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def begin(*_: object) -> None:
        # What was typed ahead is kept; Ctrl-C still interrupts.
        tty.setcbreak(terminal, termios.TCSADRAIN)

    begin()
    try:
        # After Ctrl-Z and `fg` the terminal is as the shell has left it.
        with (
            _alarm() as alarm,
            _heeding({signal.SIGTERM: _end, signal.SIGHUP: _end, signal.SIGCONT: begin}),
        ):
            yield _typed(terminal, alarm)
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextmanager
def _alarm() -> Iterator[int]:
    """A file that can be read once a signal came, to whichever thread.

    Python hears signals in the main thread, which one that came to another does not wake.
    """
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


@contextmanager
def _heeding(handlers: Mapping[signal.Signals, Callable[..., None]]) -> Iterator[None]:
    """Signals are heard in this way meanwhile."""
    before = {number: signal.signal(number, heard) for number, heard in handlers.items()}
    try:
        yield
    finally:
        for number, heard in before.items():
            signal.signal(number, heard)


def _end(number: int, frame: object) -> NoReturn:
    """End as the signal would have it, after everything has been set back."""
    raise SystemExit(128 + number)


def typed_line(typed: Iterator[str], echo: Callable[[str], None]) -> str:
    """The words that are typed up to Enter; each is echoed, and backspace takes one back."""
    words = ""
    for key in typed:
        if key in "\r\n":
            break
        if key in "\x7f\b":
            if words:
                words = words[:-1]
                echo("\b \b")
        elif key.isprintable():
            words += key
            echo(key)
    echo("\n")
    return words.strip()


def _typed(terminal: int, alarm: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    while True:
        while terminal not in select.select([terminal, alarm], [], [])[0]:
            os.read(alarm, 64)  # signals are heard now
        byte = _byte(terminal)
        if not byte or byte == b"\x04":
            return
        if byte == b"\x1b":
            _skip_sequence(terminal)
        else:
            yield from decoder.decode(byte)


def _byte(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1)
    except OSError:  # the terminal was closed
        return b""


def _skip_sequence(terminal: int) -> None:
    """Pass over what follows an escape: ``[A`` of an arrow, ``[15~`` of a function key."""
    introduced = False
    while select.select([terminal], [], [], _ESCAPE_WAIT_S)[0]:
        byte = _byte(terminal)
        if not introduced and byte in (b"[", b"O"):
            introduced = True
        elif not introduced or not byte or b"@" <= byte <= b"~":
            return
