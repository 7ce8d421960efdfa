"""Tables as values, and how they are written: for people, for programs, for papers."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, get_args

from kglink.errors import UsageError
from kglink.text.printable import printable_line
from kglink_cli.console import print_table, say, say_cells, tell

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


def _plain(table: Table) -> None:
    if table.title:
        say(table.title)
    right = range(table.figures, len(table.columns))
    print_table(table.columns, table.rows, right=right)
    say(*table.below)


def _tsv(table: Table) -> None:
    _words_apart(table)
    for row in _expanded(table):
        say_cells(*map(str, row))


def _csv(table: Table) -> None:
    _words_apart(table)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows(
        [_no_formula(printable_line(str(cell))) for cell in row] for row in _expanded(table)
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
    "table": _plain,
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


def _no_formula(text: str) -> str:
    """A spreadsheet takes what begins like this for a formula, unless it is a number."""
    if text[:1] not in ("=", "+", "-", "@"):
        return text
    try:
        float(text)
    except ValueError:
        return text if text == "-" else f"'{text}"
    return text


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
