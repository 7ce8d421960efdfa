"""What people see: notes and progress on standard error, results and tables on standard output."""

from __future__ import annotations

import csv
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import IO, Literal, NamedTuple, get_args

from rich import progress as rich_progress
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text

from kglink.errors import UsageError
from kglink.records import OnProgress, Progress
from kglink.text.printable import printable_json, printable_line, spreadsheet_cell

#: Seconds between two lines of progress where there is no terminal.
LINE_EVERY = 10.0
#: Seconds between two looks at work that does not report by itself.
LOOK_EVERY = 0.5

#: What progress counts: items, bytes of a source, or parts, whose number is not shown.
Unit = Literal["bytes", "items", "parts"]


class Reached(NamedTuple):
    """What the work is at, how far it is in that, and how many items have been made in all."""

    label: str
    done: float
    total: float | None = None
    items: int = 0
    unit: Unit = "items"
    pace: str = ""
    """How fast it goes and how long it will take, where the work says so by itself."""


Show = Callable[[Reached], None]


def print_error(message: str, hint: str = "") -> None:
    """One error message on standard error."""
    _print(Text.assemble(("error", "bold red"), "  ", printable_line(message)))
    if hint:
        _print(Text(f"       {printable_line(hint)}"))


def note(label: str, text: str) -> None:
    """A note on standard error, its label in a column of its own."""
    _print(Text.assemble((f"{printable_line(label):10}", "bold"), " ", printable_line(text)))


def tell(line: str) -> None:
    """A line on standard error."""
    _print(Text(printable_line(line)))


def say(*lines: str) -> None:
    """Lines on standard output; what is inside of one neither ends it nor commands a terminal."""
    for line in lines:
        sys.stdout.write(printable_line(line) + "\n")


def counted(number: int, noun: str) -> str:
    """``1 mention``, ``2 mentions``, ``2 entities``, ``2 aliases``."""
    if number != 1:
        noun = re.sub("ity$", "itie", re.sub("s$", "se", noun))
    return f"{number:,} {noun}{'s' * (number != 1)}"


def say_cells(*cells: str) -> None:
    """A line of cells between tabs on standard output."""
    sys.stdout.write("\t".join(map(printable_line, cells)) + "\n")


def print_json(value: object) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(printable_json(value, indent=1) + "\n")


def print_json_list(values: Iterable[object]) -> None:
    """One JSON list on standard output, a value on each line, written as the values come."""
    sys.stdout.write("[")
    for number, value in enumerate(values):
        sys.stdout.write(",\n " if number else "\n ")
        sys.stdout.write(printable_json(value))
    sys.stdout.write("\n]\n")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[int] = ()
) -> None:
    """A table on standard output: rules on a terminal, tabs elsewhere."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            sys.stdout.write("\t".join(_plain(cell) for cell in row) + "\n")
        return
    table = Grid(box=None, pad_edge=False, header_style="bold")
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(_plain(cell)) for cell in row))
    Console().print(table)


@contextmanager
def progress(*, visible: bool = True) -> Iterator[OnProgress]:
    """Show all progress: a bar on a terminal, a line every ten seconds elsewhere."""
    with display(visible=visible) as show:
        yield lambda at: show(reached(at))


def reached(at: Progress) -> Reached:
    """Progress as it is shown."""
    return Reached(printable_line(at.step), at.done, at.total or None, at.done)


@contextmanager
def display(look: Callable[[], Reached] | None = None, *, visible: bool = True) -> Iterator[Show]:
    """Show what comes: at once, and again while nothing new comes; or else what ``look`` says.

    ``look`` is asked now and again: for work that is long silent.
    """
    if not visible:
        yield lambda _: None
        return
    ended, lock, last = threading.Event(), threading.Lock(), None
    with _bar_or_lines() as draw:

        def show(reached: Reached) -> None:
            nonlocal last
            with lock:
                last = reached
                draw(reached)

        def watch() -> None:
            while not ended.wait(LOOK_EVERY):
                if look is not None:
                    draw(look())
                elif last is not None:
                    with lock:
                        draw(last)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield show
        finally:
            ended.set()
            watcher.join()


@contextmanager
def _bar_or_lines() -> Iterator[Show]:
    if not sys.stderr.isatty():
        yield _Lines(sys.stderr).show
        return
    columns = (
        rich_progress.TextColumn("  {task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.fields[amount]}"),
        rich_progress.TaskProgressColumn(),
        rich_progress.TextColumn("{task.fields[pace]}"),
    )
    with rich_progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, pace = bar.add_task("", total=None, amount="", pace=""), _Pace()

        def show(reached: Reached) -> None:
            bar.update(
                task,
                description=escape(reached.label),
                completed=reached.done,
                amount=_amount(reached),
                pace="  ".join(pace.of(reached)),
            )
            # For `update` a total of None is no news: a step without an end would keep the last.
            bar.tasks[task].total = reached.total or None

        yield show


class _Lines:
    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._pace = _Pace()
        self._last = time.monotonic()
        self._shown = ""
        self._reached: Reached | None = None

    def show(self, reached: Reached) -> None:
        pace, now = self._pace.of(reached), time.monotonic()
        if now - self._last < LINE_EVERY:
            return
        self._last = now
        if reached == self._reached and reached.done == reached.total:
            return  # done and said: the pace alone falls
        self._reached = reached
        share = f"({reached.done / reached.total:.0%})" if reached.total else ""
        amount = " ".join(filter(None, (reached.label, _amount(reached), share)))
        line = f"  {', '.join(filter(None, (amount, *pace)))}\n"
        if line != self._shown:
            with suppress(BrokenPipeError):  # nobody reads on; the work itself goes on
                self._out.write(line)
                self._out.flush()
        self._shown = line


class _Pace:
    """How fast a step of the work goes since it was first seen."""

    def __init__(self) -> None:
        self._first = self._last = Reached("", 0)
        self._began = time.monotonic()

    def of(self, reached: Reached) -> tuple[str, str]:
        """The rate and the time that is left, each empty where nobody knows it."""
        last, self._last = self._last, reached
        if (reached.label, reached.unit) != (last.label, last.unit) or reached.done < last.done:
            self._first, self._began = reached, time.monotonic()
        if reached.pace:
            return reached.pace, ""
        seconds = max(time.monotonic() - self._began, 1e-6)
        items, done = reached.items - self._first.items, reached.done - self._first.done
        rate = left = ""
        if items or reached.unit == "items":
            rate = f"{items / seconds:,.0f}/s"
        elif reached.unit == "bytes":
            rate = f"{decimal(int(done / seconds))}/s"
        if reached.total and done > 0:
            todo = max(0.0, reached.total - reached.done)
            left = f"{timedelta(seconds=round(seconds * todo / done))} left"
        return rate, left


def _amount(reached: Reached) -> str:
    if reached.unit == "items":
        return f"{reached.items:,}" + (f" of {reached.total:,.0f}" if reached.total else "")
    if reached.items:
        return f"{reached.items:,}"
    if reached.unit == "parts":
        return ""
    total = f" of {decimal(int(reached.total))}" if reached.total else ""
    return decimal(int(reached.done)) + total


def _plain(cell: object) -> str:
    is_count = isinstance(cell, int) and not isinstance(cell, bool)
    return f"{cell:,}" if is_count else printable_line(str(cell))


def _print(text: Text) -> None:
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)


# -------------------------------------------------------------------------------------- tables
TableFormat = Literal["table", "tsv", "csv", "md", "latex"]


class Figure(NamedTuple):
    """A measured number, with its interval where there is one."""

    value: float
    interval: tuple[float, float] | None = None
    digits: int = 3

    def __str__(self) -> str:
        shown = f"{self.value:.{self.digits}f}"
        if self.interval is not None:
            low, high = (f"{end:.{self.digits}f}" for end in self.interval)
            shown += f" [{low}, {high}]"
        return shown


class Table(NamedTuple):
    """Rows below their columns; those from ``figures`` on hold numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    figures: int
    title: str = ""
    below: Sequence[str] = ()
    """Lines that belong under it."""


def check_format(name: str) -> TableFormat:
    """A format of tables by its name."""
    if name not in get_args(TableFormat):
        known = ", ".join((*get_args(TableFormat), "json"))
        raise UsageError(f"unknown format of tables {name!r}", hint=f"There is: {known}.")
    return name  # type: ignore[return-value]  # just checked


def write_tables(tables: Iterable[Table], form: TableFormat = "table") -> None:
    """Write tables to standard output, an empty line between them.

    What is to be read by programs holds no lines of words: these go to standard error.
    """
    for number, table in enumerate(tables):
        if number:
            say("")
        _WRITERS[form](table)


def _for_people(table: Table) -> None:
    if table.title:
        say(table.title)
    right = range(table.figures, len(table.columns))
    print_table(table.columns, table.rows, right=right)
    say(*table.below)


def _tsv(table: Table) -> None:
    _words_apart(table)
    for row in _expanded(table):
        say_cells(*map(str, row))


#: What a spreadsheet takes for no formula, although it begins like one; "-" says there is none.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|-")


def _csv(table: Table) -> None:
    _words_apart(table)
    rows = ([printable_line(str(cell)) for cell in row] for row in _expanded(table))
    csv.writer(sys.stdout, lineterminator="\n").writerows(
        [cell if _NUMBER.fullmatch(cell) else spreadsheet_cell(cell) for cell in row]
        for row in rows
    )


def _markdown(table: Table) -> None:
    if table.title:
        say(f"**{_md(table.title)}**", "")
    words = ["---"] * table.figures + ["---:"] * (len(table.columns) - table.figures)
    for row in (table.columns, words, *table.rows):
        say(f"| {' | '.join(_md(cell) for cell in row)} |")
    say(*(_md(line) for line in table.below))


def _latex(table: Table) -> None:
    if table.title:
        say(f"% {printable_line(table.title)}")
    columns = "l" * table.figures + "r" * (len(table.columns) - table.figures)
    say(f"\\begin{{tabular}}{{{columns}}}", "\\toprule", _latex_row(table.columns), "\\midrule")
    say(*map(_latex_row, table.rows), "\\bottomrule", "\\end{tabular}")
    say(*(f"% {printable_line(line)}" for line in table.below if line))


_WRITERS: dict[TableFormat, Callable[[Table], None]] = {
    "table": _for_people,
    "tsv": _tsv,
    "csv": _csv,
    "md": _markdown,
    "latex": _latex,
}


def _words_apart(table: Table) -> None:
    for line in (table.title, *table.below):
        if line:
            tell(line)


def _expanded(table: Table) -> list[list[object]]:
    """Header and rows, where an interval has two columns of its own and figures six digits."""
    spread = {
        at
        for row in table.rows
        for at, cell in enumerate(row)
        if isinstance(cell, Figure) and cell.interval is not None
    }
    header: list[object] = []
    for at, name in enumerate(table.columns):
        header += [name, f"{name} from", f"{name} to"] if at in spread else [name]
    rows = [header]
    for row in table.rows:
        cells: list[object] = []
        for at, cell in enumerate(row):
            numbers = [cell]
            if isinstance(cell, Figure):
                numbers = [f"{cell.value:.6f}", *(f"{end:.6f}" for end in cell.interval or ())]
            cells += numbers + [""] * (3 - len(numbers)) if at in spread else numbers
        rows.append(cells)
    return rows


def _md(cell: object) -> str:
    return printable_line(str(cell)).replace("\\", "\\\\").replace("|", "\\|")


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "[": "{[}",  # behind a line break it would be an option of that
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


def _latex_row(row: Sequence[object]) -> str:
    cells = (printable_line(str(cell)).translate(_LATEX) for cell in row)
    return " & ".join(cells) + r" \\"
