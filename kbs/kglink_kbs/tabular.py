"""Entities as a table: CSV, TSV and their cousins, with the names of the columns on top."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator

from pydantic import Field, field_validator

from kglink.errors import RecordError, SourceError
from kglink.records import Entity, Record
from kglink.sources import Problems, Source, SourceHead
from kglink.sources.encoding import (
    Dialect,
    Guess,
    Quoting,
    bad_row,
    first_rows,
    guess_dialect,
    not_utf8,
)
from kglink_kbs.columns import GUESSED, Columns, find_columns
from kglink_kbs.entities import Descriptions, EntityFields, EntityMaker
from kglink_kbs.spellings import ENTITY, find_fields
from kglink_kbs.values import BadValue, checked

_PLAIN_QUOTES = "; where quotes are plain characters, --set quoting=none"


def guess_table(head: str, delimiter: str = "", quoting: Quoting = "auto") -> Guess:
    """The dialect that fits best a table of entities."""
    return guess_dialect(head, lambda header: len(find_fields(header, ENTITY)), delimiter, quoting)


_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}


class CsvSettings(EntityFields):
    """Settings of ``kglink/csv``."""

    separator: str = Field(
        GUESSED,
        description="Splits a cell that holds several aliases, xrefs or parents; `auto`: guessed "
        "from the cells; empty: no split.",
    )
    delimiter: str = Field(
        "",
        description="Sign between the columns, or `tab`, `comma`, `semicolon`, `pipe`; guessed "
        "if empty.",
    )
    quoting: Quoting = Field(
        "auto",
        description='`double`: a cell in "quotes" may hold delimiters and line breaks; `none`: '
        "quotes are plain characters; `auto`: guessed.",
    )

    @field_validator("delimiter")
    @classmethod
    def _one_sign(cls, value: str) -> str:
        sign = _DELIMITER_NAMES.get(value, value)
        if len(sign) > 1 or sign in ("\n", "\r", '"'):
            raise ValueError("must be one sign, and no quote or line break")
        return sign


class TsvSettings(CsvSettings):
    """Settings of ``kglink/tsv``."""

    delimiter: str = Field(
        "\t", description="Sign between the columns, or `tab`, `comma`, `semicolon`, `pipe`."
    )


class TabularAdapter:
    """Reads one entity from each row of a table."""

    def __init__(self, settings: CsvSettings) -> None:
        self._settings = settings
        self._entities = EntityMaker("")  # the cells of lists are split here

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the entities of ``source`` in their order."""
        head = source.head.head.decode("utf-8-sig", errors="replace")
        settings = self._settings
        dialect = guess_table(head, settings.delimiter, settings.quoting).dialect
        rows = _rows(source, dialect, problems)
        line, header = next(rows, (0, []))
        header = _checked_header(source, header)
        sample = first_rows(head, dialect, len(header))
        columns = find_columns(source.label, header, sample, settings, problems)
        first = (columns.values(row).get("description") for row in sample)
        descriptions = Descriptions(first, problems)
        count = 0
        for line, row in rows:
            count += 1
            try:
                yield descriptions.mended(self._entity(row, header, columns))
            except BadValue as bad:
                problems.report(bad.at(source.where(line)))
        if not count and not problems.total:
            raise SourceError(f"{source.label} holds no record", hint="It has a header only.")

    def _entity(self, row: list[str], header: list[str], columns: Columns) -> Entity:
        if len(row) != len(header):
            raise BadValue(
                f"found {len(row)} column{'s' * (len(row) != 1)}, the header has {len(header)}",
                "A cell that holds the delimiter must be quoted; --set delimiter=... and "
                "--set quoting=double|none where the guess is wrong.",
            )
        return self._entities.make(columns.values(row), header)


def _checked_header(source: Source, header: list[str]) -> list[str]:
    """The names of the columns; those without one are passed over."""
    try:
        names = [checked(name, "the header").strip() for name in header]
    except BadValue as bad:
        raise SourceError(f"{source.where(1)}: {bad.message}", hint=bad.hint) from bad
    for name, count in Counter(filter(None, names)).items():
        if count > 1:
            raise SourceError(
                f"{source.label} has two columns named {name!r}",
                hint="Rename one of them in the first line.",
            )
    return names


class _Feed:
    """Hands lines to `csv.reader` and remembers on which one a row begins."""

    def __init__(self, source: Source, problems: Problems) -> None:
        self._source = source
        self._lines = source.byte_lines(problems)
        self.first = 0
        self.bad: RecordError | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, start, line = next(self._lines)
        self.first = self.first or number
        try:
            return line.decode("utf-8") + "\n"
        except UnicodeDecodeError as error:  # the row is refused as a whole once it is complete
            where = self._source.where(number)
            position, file = start + error.start, self._source.file
            self.bad = self.bad or not_utf8(where, line, position, file)
            return line.decode("utf-8", errors="replace") + "\n"


def _rows(source: Source, dialect: Dialect, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the number of its first line."""
    # The limit is one of the whole process, and small; so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), source.limits.max_line_bytes))
    feed = _Feed(source, problems)
    reader = dialect.rows(feed)
    header_seen = False
    while True:
        feed.first, feed.bad = 0, None
        bad: RecordError | None
        try:
            row = next(reader)
            bad = feed.bad
        except StopIteration:
            return
        except csv.Error as error:
            row, bad = [], feed.bad or bad_row(source.where(feed.first), error, _PLAIN_QUOTES)
        if bad and not header_seen:
            # Without its header a table says nothing: no bad record, but a bad source.
            raise SourceError(bad.message, hint=bad.hint)
        if bad:
            problems.report(bad)
        elif row:
            header_seen = True
            yield feed.first, row


def sniff_csv(head: SourceHead) -> float:
    """Sure of a header that names an id and a title, with any delimiter but the tab."""
    return _sniff(head, tabs=False)


def sniff_tsv(head: SourceHead) -> float:
    """Sure of a header that names an id and a title, separated by a tab."""
    return _sniff(head, tabs=True)


def _sniff(head: SourceHead, *, tabs: bool) -> float:
    text = head.head.decode("utf-8-sig", errors="replace")
    if "\0" in text or text.lstrip()[:1] in ("", "{", "[", "<"):
        return 0.0
    guess = guess_table(text)
    if guess.columns < 2 or (guess.dialect.delimiter == "\t") is not tabs:
        return 0.0
    if find_fields(guess.header, ENTITY).keys() >= {"key", "title"}:
        return 0.9
    named = head.name.lower().endswith((".csv", ".tsv", ".tab"))
    return 0.3 if named and guess.regular > 0.9 and guess.rows > 1 else 0.0
