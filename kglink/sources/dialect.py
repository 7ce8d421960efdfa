"""How the rows of a table in plain text are written: its delimiter and quotes, guessed."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from kglink.errors import RecordError

Quoting = Literal["auto", "double", "none"]
_DELIMITERS = (",", "\t", ";", "|")
_ROWS = 200
#: A cell between tabs that has quotes around it.
_ENCLOSED = re.compile(r'(?:^|\t)"[^"\t\n]*"(?:\r?$|\t)', re.MULTILINE)


class Dialect(NamedTuple):
    """How the rows of a table are written."""

    delimiter: str
    quoted: bool

    def rows(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """The rows of ``lines``; raises `csv.Error` at a bad one and goes on behind it."""
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quoting=quoting,
            strict=True,
            skipinitialspace=self.delimiter != " ",
        )


class Guess(NamedTuple):
    """A dialect, and how well a table's beginning fits it; greater is better."""

    known_columns: int
    regular: float
    rows: int
    columns: int
    quoted: bool
    header: tuple[str, ...]
    dialect: Dialect


def guess_dialect(
    head: str,
    known: Callable[[Sequence[str]], int],
    delimiter: str = "",
    quoting: Quoting = "auto",
) -> Guess:
    """The dialect that fits best: known column names first, then rows as long as the header.

    ``known`` counts the names of a header that are known.
    """
    lines = whole_lines(head)
    delimiters = (delimiter,) if delimiter else _DELIMITERS
    dialects = [Dialect(sign, quoting != "none") for sign in delimiters]
    if quoting == "auto" and "\t" in delimiters and not _ENCLOSED.search("".join(lines)):
        # Tables with tabs are often written without quoting; the others hardly ever.
        dialects.append(Dialect("\t", quoted=False))
    return max((_fit(lines, dialect, known) for dialect in dialects), key=lambda guess: guess[:5])


def first_rows(head: str, dialect: Dialect, width: int) -> list[list[str]]:
    """The first rows below the header, those of another length left out."""
    rows = filter(None, _rows_of(whole_lines(head), dialect))
    return [row for row in islice(rows, 1, _ROWS) if len(row) == width]


def whole_lines(head: str) -> list[str]:
    """The lines of a table's beginning; the table goes on behind it: the last may be half a one."""
    sample = head[: head.rfind("\n") + 1] or head
    return [line.removesuffix("\r") + "\n" for line in sample.removesuffix("\n").split("\n")]


def _rows_of(lines: list[str], dialect: Dialect) -> Iterator[list[str] | None]:
    """The rows that are not blank; None for one that is no row."""
    reader = dialect.rows(lines)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield None
        else:
            if row:
                yield row


def _fit(lines: list[str], dialect: Dialect, known: Callable[[Sequence[str]], int]) -> Guess:
    rows = list(islice(_rows_of(lines, dialect), _ROWS))
    header = next(filter(None, rows), [])
    good = sum(row is not None and len(row) == len(header) for row in rows)
    share = good / len(rows) if rows else 0.0
    return Guess(known(header), share, good, len(header), dialect.quoted, tuple(header), dialect)


def bad_row(where: str, error: csv.Error, plain_quotes: str = "") -> RecordError:
    """What is wrong with a row; ``plain_quotes`` says how to read quotes as plain characters."""
    hint = f'Inside a quoted cell a quote is written twice (""){plain_quotes}.'
    if "end of data" in str(error):
        reason = "a quote opens here that is never closed"
    elif "new-line" in str(error):
        reason = "a carriage return stands inside a row"
        hint = "If the lines end as on old Macs: tr '\\r' '\\n' < FILE"
    else:
        reason = f"not a row of the table: {error}"
    return RecordError(reason, where=where, hint=hint)
