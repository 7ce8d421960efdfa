"""A person at a terminal: keys without Enter, lines typed key by key, cards that are judged."""

from __future__ import annotations

import codecs
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from kglink.errors import UsageError
from kglink.text.printable import printable

#: Seconds after an escape byte within which the rest of an arrow's or function key's must come.
_ESCAPE_WAIT_S = 0.05
#: Seconds between two looks for a key: Python hears a signal that came to another thread only then.
_SIGNALS_HEARD_S = 0.2
#: The keys of candidates are the digits from 1.
MOST_CHOICES = 9
_MOST_OF_TITLE, _MOST_DESCRIBED = 100, 120


@contextmanager
def keys() -> Iterator[Iterator[str]]:
    """The keys that are typed, until the input ends; the terminal is set back afterwards."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def begin(*_: object) -> None:
        # What was typed ahead is kept; Ctrl-C still interrupts.
        tty.setcbreak(terminal, termios.TCSADRAIN)

    # After Ctrl-Z and `fg` the terminal is as the shell has left it.
    heard = signal.signal(signal.SIGCONT, begin)
    try:
        begin()
        yield _typed(terminal)
    finally:
        signal.signal(signal.SIGCONT, heard)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _typed(terminal: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def comes_within(seconds: float) -> bool:
        return bool(select.select([terminal], [], [], seconds)[0])

    def byte_read() -> bytes:
        with suppress(OSError):  # the terminal was closed
            return os.read(terminal, 1)
        return b""

    while True:
        while not comes_within(_SIGNALS_HEARD_S):
            pass
        byte = byte_read()
        if not byte or byte == b"\x04":
            return
        if byte != b"\x1b":
            yield from decoder.decode(byte)
            continue
        # Pass over what follows an escape: ``[A`` of an arrow, ``[15~`` of a function key.
        introduced = False
        while comes_within(_ESCAPE_WAIT_S):
            byte = byte_read()
            if not introduced and byte in (b"[", b"O"):
                introduced = True
            elif not introduced or not byte or b"@" <= byte <= b"~":
                break


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


def require_terminal(what: str, hint: str) -> None:
    """Refuse a review where keys cannot be read, or what is judged cannot be shown."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"a review needs a terminal: keys are read from it, and the {what} shown on it",
            hint=hint,
        )


def review_console(*, quiet: bool = False) -> Console:
    """Where cards are shown: standard output is for the result."""
    return Console(stderr=True, highlight=False, quiet=quiet)


def show_card(console: Console, heading: str, *content: RenderableType, keys: str) -> None:
    """Show one thing to judge below a heading, and the keys that judge it."""
    console.print()
    console.print(Group(Rule(heading, align="left", characters="-", style="dim"), *content))
    console.print(keys, style="dim", markup=False)


def choices(offered: Iterable[tuple[str, str, str]]) -> Iterator[Text]:
    """A line for each id, title and description, behind the key that chooses it."""
    for number, (name, title, description) in enumerate(offered, 1):
        line = Text.assemble(f"  {number}  ", (printable(name), "cyan"), "  ")
        line.append(printable(title, _MOST_OF_TITLE), "bold")
        yield line.append(f"  {printable(description, _MOST_DESCRIBED)}".rstrip(), "dim")
