"""Tables with columns added, in text, XLSX or Parquet; everything else stays as it is."""

from __future__ import annotations

import codecs
import csv
import io
import shutil
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from importlib import import_module
from itertools import chain, islice
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar

from kglink.errors import RecordError, SourceError, UnknownNameError, UsageError
from kglink.sources import Source
from kglink.sources.compression import PARQUET_MAGIC
from kglink.sources.encoding import (
    Dialect,
    bad_row,
    guess_dialect,
    marked_encoding,
    whole_lines,
    without_separator,
)
from kglink.sources.tables import (
    LOOKED_AT,
    MOST_COLUMNS,
    Cell,
    Workbook,
    naming_damage,
    opened_parquet,
)
from kglink.text.printable import printable_line, same_length_line, spreadsheet_cell, writable

Of = TypeVar("Of")
#: Added cells of one row, as text, or numbers; empty where there is nothing to say.
Added = Sequence[str | float]
#: Given the cells of each row in the wanted columns, gives those to add, row by row.
Answer = Callable[[Iterable[Sequence[Cell]]], Iterator[Added]]


def places_of(label: str, names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where the wanted columns stand."""
    counts = Counter(names)
    for name in wanted:
        if name not in counts:
            raise UnknownNameError(f"column of {label}", name, list(filter(None, counts)))
        if counts[name] > 1:
            raise UsageError(
                f"{label} has {counts[name]} columns named {name!r}",
                hint="Rename them, so that one of them is meant.",
            )
    return [names.index(name) for name in wanted]


def refuse_taken(label: str, names: Sequence[str], added: Sequence[str]) -> None:
    """Refuse a table that has the columns which would be added."""
    if taken := [name for name in added if name in names]:
        raise UsageError(
            f"{label} has the column{'s' * (len(taken) > 1)} {', '.join(taken)} already",
            hint="Rename or remove what an earlier run added.",
        )


class _Header(NamedTuple, Generic[Of]):
    """A row that may name the columns."""

    above: int
    """How many lines or rows stand above it."""
    of: Of
    """The dialect, or the sheet, that it was read by."""
    names: Sequence[str]

    @property
    def width(self) -> int:
        """How many columns it names."""
        return sum(map(bool, self.names))


def _chosen(headers: Iterable[_Header[Of]], wanted: Set[str]) -> _Header[Of]:
    """The first one that has the wanted columns; where none has, that with the most names.

    Headings above it have fewer cells: a row that has no more is no header, unless all have one.
    """
    seen: list[_Header[Of]] = []
    widest = 0
    for one in headers:
        widest = widest if one.above else 0
        if wanted <= set(filter(None, one.names)) and max(one.width, 2) > widest:
            return one
        seen.append(one)
        widest = max(widest, one.width)
    return max(seen, key=lambda one: one.width)


class _Line(NamedTuple):
    """A line of a file: its bytes with its end, and what they say."""

    raw: bytes
    text: str


class TextTable:
    """A table in plain text: the bytes of its cells, their quotes and line ends are copied."""

    kind = "text"

    def __init__(self, source: Source, columns: Sequence[str]) -> None:
        self._source = source
        head = source.head.head
        source.check_text()
        with source.open_bytes() as stream:
            start = stream.read(4)
        encoding = marked_encoding(start) or source.limits.encoding or "utf-8"
        wide = "utf-16-be" if start.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"
        unmarked = {"utf-8-sig": "utf-8", "utf-16": wide, "utf-32": "utf-32-le"}
        name = codecs.lookup(encoding).name
        self._encoding = unmarked.get(name, name)
        """What lines are written in: without a mark at the beginning of each."""
        text, said = without_separator(head.decode("utf-8-sig", errors="replace"))
        tabs = source.head.name.lower().endswith((".tsv", ".tab"))
        wanted, delimiter = set(columns), said or ("\t" if tabs else "")
        header = _chosen(_headers_in(text, wanted, delimiter), wanted)
        self.dialect = header.of
        self._above = header.above + bool(said)
        """How many lines stand above the header."""
        csv.field_size_limit(max(csv.field_size_limit(), source.limits.max_line_bytes))
        self.rows: int | None = None
        self.padded = 0
        """How many rows had fewer cells than the header."""

    def columns(self) -> Sequence[str]:
        """The cells of the header: the first row of all that is not blank, or below headings."""
        for _, row in self._rows():
            if row:
                return [cell.strip() for cell in row]
        raise SourceError(f"{self._source.label} holds no table", hint="It has blank lines only.")

    def write(self, out: BinaryIO, wanted: Sequence[int], added: Sequence[str], by: Answer) -> None:
        """Write the rows with their added cells; blank lines stay."""
        rows, waiting = self._rows(), deque[tuple[list[_Line], int]]()
        for lines, header in rows:
            if header:
                out.write(self._with_cells(lines, 0, added))
                break
            out.write(b"".join(line.raw for line in lines))

        def asked() -> Iterator[Sequence[Cell]]:
            for lines, row in rows:
                missing = len(header) - len(row)
                if not row:
                    waiting.append((lines, -1))
                    continue
                self.padded += missing > 0
                waiting.append((lines, missing))
                yield [row[at] if at < len(row) else "" for at in wanted]

        def write_blank() -> None:
            while waiting and waiting[0][1] < 0:
                out.write(b"".join(line.raw for line in waiting.popleft()[0]))

        for cells in by(asked()):
            write_blank()
            lines, missing = waiting.popleft()
            out.write(self._with_cells(lines, missing, cells))
        write_blank()

    def _with_cells(self, lines: Sequence[_Line], missing: int, cells: Added) -> bytes:
        """The bytes of a row, and behind its last cell the added ones."""
        *before, last = lines
        body = last.text.rstrip("\r\n")
        end = last.text[len(body) :]
        values = [""] * missing + [harmless(cell) for cell in cells]
        if self.dialect.quoted:
            made = io.StringIO()
            csv.writer(made, delimiter=self.dialect.delimiter, lineterminator="").writerow(values)
            more = made.getvalue()
        else:
            more = self.dialect.delimiter.join(values)
        kept = last.raw[: len(last.raw) - len(self._encoded(end))]
        tail = self._encoded(f"{self.dialect.delimiter}{more}{end}")
        return b"".join(line.raw for line in before) + kept + tail

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode(self._encoding)
        except UnicodeEncodeError as error:
            cell = text[error.start : error.end]
            raise UsageError(
                f"{self._source.label}: {cell!r} of the answers cannot be written in "
                f"{self._encoding}",
                hint="Convert the table to UTF-8 first.",
            ) from error

    # ----------------------------------------------------------------------------- reading
    def _rows(self) -> Iterator[tuple[list[_Line], list[str]]]:
        """The rows with the lines that each of them takes."""
        read: list[_Line] = []
        every = self._lines()
        for line in islice(every, self._above):
            yield [line], []
        number, width = self._above, 0
        first = number + 1

        def lines() -> Iterator[str]:
            nonlocal number
            for number, line in enumerate(every, first):
                read.append(line)
                yield line.text.rstrip("\r\n").removeprefix("\ufeff" * (number == 1)) + "\n"

        for row in self.dialect.rows(lines()):
            if isinstance(row, csv.Error):
                raise bad_row(self._source.where(first), row) from row
            width = width or len(row)
            if len(row) > width:
                raise RecordError(
                    f"found {len(row)} cells, the header has {width}",
                    where=self._source.where(first),
                    hint="A cell that holds the delimiter must be quoted: mend that line.",
                )
            yield read.copy(), row
            read.clear()
            first = number + 1

    def _lines(self) -> Iterator[_Line]:
        encoding, source = self._encoding, self._source
        longest = source.limits.max_line_bytes
        end = "\n".encode(encoding)
        place = 0
        with source.open_bytes() as stream:
            for number, raw in enumerate(_split(stream, end, longest), 1):
                try:
                    text = raw.decode(encoding)
                except UnicodeDecodeError as error:
                    where = source.where(number)
                    if encoding != "utf-8":
                        raise RecordError(
                            f"not {encoding}", where=where, hint="--encoding names another."
                        ) from error
                    raise source.not_utf8(where, raw, place, error) from error
                place += len(raw)
                if "\0" in text or len(raw) > longest:
                    what = "a NUL byte" if "\0" in text else f"longer than {longest:,} bytes"
                    hint = "The file may be damaged here." if "\0" in text else ""
                    raise RecordError(what, where=source.where(number), hint=hint)
                yield _Line(raw, text)


def _headers_in(text: str, wanted: set[str], delimiter: str) -> Iterator[_Header[Dialect]]:
    """Each of the first rows as the header, and the dialect of what is below it."""
    lines = whole_lines(text)
    for above, line in enumerate(lines[:LOOKED_AT]):
        guess = guess_dialect(
            "".join(lines[above:]),
            lambda header: 2 * len(wanted.intersection(header)) + (len(header) > 1),
            delimiter,
        )
        header = _Header(above, guess.dialect, [name.strip() for name in guess.header])
        yield header
        if header.width > 1 and line.count('"') % 2:  # the next line is of one of its cells
            return


def _split(stream: BinaryIO, end: bytes, longest: int) -> Iterator[bytes]:
    """The lines of a stream, each with its end; of wide encodings an end is a whole character."""
    if len(end) == 1:
        yield from iter(lambda: stream.readline(longest + 2), b"")
        return
    pending = b""
    while piece := stream.read(1 << 16):
        pending += piece
        start = at = 0
        while (at := pending.find(end, at)) >= 0:
            if at % len(end):
                at += 1
                continue
            at += len(end)
            yield pending[start:at]
            start = at
        pending = pending[start:]
        if len(pending) > longest:
            break
    if pending:
        yield pending


def harmless(cell: str | float) -> str:
    """An added cell that no spreadsheet runs, on one line."""
    if not isinstance(cell, str):
        return f"{cell:g}"
    return spreadsheet_cell(writable(same_length_line(cell.strip())))


#: Rows of a Parquet file that are in memory at a time.
_GROUP = 65_536
#: From here on the added cells may make a part of a workbook larger than 2 GB.
_LARGE = 1 << 29


class XlsxTable:
    """The first sheet that has the columns; all else in its workbook is copied as it is."""

    kind = "XLSX"

    def __init__(self, source: Source, columns: Sequence[str]) -> None:
        self._source = source
        self._book = Workbook(source)
        header = _chosen(self._headers(), set(columns))
        self._sheet, self._header, self._names = header.of, header.above + 1, header.names
        from kglink_cli.sheet_xml import size_of  # which needs the library

        with naming_damage(source, "XLSX"):
            self._part = self._book.parts[self._sheet]
            with self._book.archive() as archive, archive.open(self._part) as sheet:
                rows, self._columns = size_of(sheet, source.label)
        self.rows: int | None = max(0, rows - self._header)

    def _headers(self) -> Iterator[_Header[str]]:
        for sheet, rows in self._book.tops():
            for above, row in enumerate(chain(rows, [()])):
                names = [str("" if cell is None else cell).strip() for cell in row]
                yield _Header(above, sheet, names)

    def columns(self) -> Sequence[str]:
        """The cells of the header."""
        return self._names

    def write(self, out: BinaryIO, wanted: Sequence[int], added: Sequence[str], by: Answer) -> None:
        """Write the workbook, the sheet with cells behind the last column."""
        from openpyxl.utils import get_column_letter

        from kglink_cli.sheet_xml import with_cells

        first = max(self._columns, len(self._names)) + 1
        if first + len(added) - 1 > MOST_COLUMNS:
            raise SourceError(
                f"{self._source.label} has cells in column {get_column_letter(first - 1)}, and "
                "no room behind it",
                hint="Delete what is right of the table, formats too.",
            )
        rows = islice(self._book.rows(self._sheet, values_only=True), self._header, None)

        def asked() -> Iterator[Sequence[Cell]]:
            for row in rows:
                yield [row[at] if at < len(row) else None for at in wanted]

        answers = enumerate(by(asked()), self._header + 1)

        def cells_of(number: int) -> Added:
            if number == self._header:
                return [_cell(name) for name in added]
            below = answers if number > self._header else ()
            for at, cells in below:  # rows that the file leaves out are empty
                if at == number:
                    return [_cell(cell) for cell in cells]
            return ()

        with self._book.archive() as archive, zipfile.ZipFile(out, "w") as written:
            for part in archive.infolist():
                copied = zipfile.ZipInfo(part.filename, part.date_time)
                copied.compress_type = part.compress_type
                copied.external_attr = part.external_attr
                large = part.file_size > _LARGE
                with archive.open(part) as old, written.open(copied, "w", force_zip64=large) as new:
                    if part.filename == self._part:
                        new.writelines(with_cells(old, self._source.label, first, cells_of))
                    else:
                        shutil.copyfileobj(old, new)


def _cell(cell: str | float) -> str | float:
    return printable_line(harmless(cell)) if isinstance(cell, str) else cell


class ParquetTable:
    """A Parquet file, read and written in groups of rows."""

    kind = "Parquet"

    def __init__(self, source: Source) -> None:
        self._source = source
        self._file = opened_parquet(source)
        self._arrow = import_module("pyarrow")
        self.rows: int | None = self._file.metadata.num_rows

    def columns(self) -> Sequence[str]:
        """The names in the schema."""
        return [str(name) for name in self._file.schema_arrow.names]

    def write(self, out: BinaryIO, wanted: Sequence[int], added: Sequence[str], by: Answer) -> None:
        """Write the file with the columns behind its own; numbers are numbers."""
        arrow, waiting, made = self._arrow, deque[Any](), list[Added]()
        schema = self._file.schema_arrow
        if nested := [schema.names[at] for at in wanted if schema.types[at].num_fields]:
            kind = schema.field(nested[0]).type
            raise UsageError(
                f"the column {nested[0]!r} of {self._source.label} holds values of {kind}",
                hint="Name a column with one value in each row.",
            )
        for name in added:
            kind = arrow.float64() if name.endswith("probability") else arrow.string()
            schema = schema.append(arrow.field(name, kind))

        def asked() -> Iterator[Sequence[Cell]]:
            with naming_damage(self._source, "Parquet"):
                for batch in self._file.iter_batches(batch_size=_GROUP):
                    waiting.append(batch)
                    cells = (batch.column(at).to_pylist() for at in wanted)
                    yield from zip(*cells, strict=True)

        with arrow.parquet.ParquetWriter(out, schema, compression=self._compression()) as writer:
            for cells in by(asked()):
                made.append(cells)
                if len(made) == waiting[0].num_rows:
                    batch = waiting.popleft()
                    own = [
                        arrow.array([None if one[at] == "" else one[at] for one in made], kind)
                        for at, kind in enumerate(schema.types[len(batch.columns) :])
                    ]
                    columns = [*batch.columns, *own]
                    writer.write_batch(arrow.RecordBatch.from_arrays(columns, schema=schema))
                    made.clear()

    def _compression(self) -> str:
        metadata = self._file.metadata
        if not metadata.num_row_groups or not metadata.num_columns:
            return "snappy"
        name = str(metadata.row_group(0).column(0).compression).lower()
        return "none" if name == "uncompressed" else name


TableFile = TextTable | XlsxTable | ParquetTable


def opened_table(source: Source, columns: Sequence[str]) -> TableFile:
    """The table in a file, whose kind is known by its first bytes; ``columns`` are wanted of it."""
    head = source.head.head
    if source.is_zip:
        return XlsxTable(source, columns)
    if head.startswith(PARQUET_MAGIC):
        return ParquetTable(source)
    return TextTable(source, columns)
