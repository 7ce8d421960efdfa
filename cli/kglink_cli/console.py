"""What people see: notes and progress on standard error, results on standard output."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Literal

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

#: Seconds between two lines of progress where there is no terminal.
LINE_EVERY = 10.0

Unit = Literal["bytes", "items"]
#: ``report(done, items)``: how far the work is in all, and how many items that makes.
Report = Callable[[float, int], None]


def print_error(message: str, hint: str = "") -> None:
    """One error message on standard error."""
    _print(Text.assemble(("error", "bold red"), "  ", message))
    if hint:
        _print(Text(f"       {hint}"))


def note(label: str, text: str) -> None:
    """A note on standard error, its label in a column of its own."""
    _print(Text.assemble((f"{label:10}", "bold"), " ", text))


def counted(number: int, noun: str) -> str:
    """``1 mention``, ``2 mentions``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def print_json(value: object) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[int] = ()
) -> None:
    """A table on standard output: rules on a terminal, tabs elsewhere."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            sys.stdout.write("\t".join(_plain(cell) for cell in row) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(_plain(cell)) for cell in row))
    Console().print(table)


@contextmanager
def progress(
    label: str, total: float | None, unit: Unit = "items", *, visible: bool = True
) -> Iterator[Report]:
    """Report progress: a bar on a terminal, a line every ten seconds elsewhere."""
    if not visible:
        yield lambda done, items: None
    elif sys.stderr.isatty():
        with _bar(label, total, unit) as report:
            yield report
    else:
        yield _Lines(label, total, unit, sys.stderr).report


@contextmanager
def _bar(label: str, total: float | None, unit: Unit) -> Iterator[Report]:
    amount: ProgressColumn = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(),
        amount,
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=_stderr(), transient=True) as bar:
        task = bar.add_task(escape(label), total=total, rate="")

        def report(done: float, items: int) -> None:
            rate = items / max(time.monotonic() - began, 1e-6)
            bar.update(task, completed=done, rate=f"{rate:,.0f}/s")

        yield report


class _Lines:
    def __init__(self, label: str, total: float | None, unit: Unit, out: IO[str]) -> None:
        self._label, self._total, self._unit, self._out = label, total, unit, out
        self._began = self._last = time.monotonic()

    def report(self, done: float, items: int) -> None:
        now = time.monotonic()
        if now - self._last < LINE_EVERY:
            return
        self._last = now
        elapsed = now - self._began
        share = f" ({done / self._total:.0%})" if self._total else ""
        left = f", {elapsed * (self._total / done - 1):,.0f} s left" if self._total and done else ""
        self._out.write(f"  {self._label} {items:,}{share}, {items / elapsed:,.0f}/s{left}\n")
        self._out.flush()


def _plain(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _print(text: Text) -> None:
    _stderr().print(text, highlight=False, soft_wrap=True)


def _stderr() -> Console:
    return Console(stderr=True)
