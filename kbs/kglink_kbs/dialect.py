"""Guesses how a table is written: its delimiter, and whether quotes quote."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from kglink_kbs.spellings import ENTITY, find_fields

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


def guess_dialect(head: str, delimiter: str = "", quoting: Quoting = "auto") -> Guess:
    """The dialect that fits best: known column names first, then rows as long as the header."""
    # The table goes on behind the beginning that we see: its last line may be half a line.
    sample = head[: head.rfind("\n") + 1] or head
    lines = [line.removesuffix("\r") + "\n" for line in sample.removesuffix("\n").split("\n")]
    delimiters = (delimiter,) if delimiter else _DELIMITERS
    dialects = [Dialect(sign, quoting != "none") for sign in delimiters]
    if quoting == "auto" and "\t" in delimiters and not _ENCLOSED.search(sample):
        # Tables with tabs are often written without quoting; the others hardly ever.
        dialects.append(Dialect("\t", quoted=False))
    return max((_fit(lines, dialect) for dialect in dialects), key=lambda guess: guess[:5])


def _fit(lines: list[str], dialect: Dialect) -> Guess:
    header: list[str] = []
    good = bad = 0
    reader = dialect.rows(lines)
    while good + bad < _ROWS:
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error:
            bad += 1
            continue
        if not row:
            continue
        header = header or row
        good, bad = good + (len(row) == len(header)), bad + (len(row) != len(header))
    known = len(find_fields(header, ENTITY))
    share = good / (good + bad) if good + bad else 0.0
    return Guess(known, share, good, len(header), dialect.quoted, tuple(header), dialect)
