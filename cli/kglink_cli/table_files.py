"""Tables with columns added, in text, XLSX or Parquet; everything else stays as it is."""

from __future__ import annotations

import codecs
import csv
import io
import re
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import IO, Any, BinaryIO, NamedTuple, cast

from kglink.errors import KglinkError, RecordError, SourceError, UnknownNameError, UsageError
from kglink.sources import Source, check_text
from kglink.sources.encoding import Dialect, bad_row, guess_dialect, marked_encoding, not_utf8
from kglink.text.printable import printable_line, same_length_line, spreadsheet_cell, writable

#: A cell as its file has it.
Cell = object
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


class _Line(NamedTuple):
    """A line of a file: its bytes with its end, and what they say."""

    raw: bytes
    text: str


class TextTable:
    """A table in plain text: the bytes of its cells, their quotes and line ends are copied."""

    def __init__(self, source: Source, columns: Sequence[str]) -> None:
        self._source = source
        head = source.head.head
        check_text(source.label, head, source.file)
        with source.open_bytes() as stream:
            start = stream.read(4)
        encoding = marked_encoding(start) or source.limits.encoding or "utf-8"
        wide = "utf-16-be" if start.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"
        unmarked = {"utf-8-sig": "utf-8", "utf-16": wide, "utf-32": "utf-32-le"}
        name = codecs.lookup(encoding).name
        self._encoding = unmarked.get(name, name)
        """What lines are written in: without a mark at the beginning of each."""
        wanted = set(columns)
        text = head.decode("utf-8-sig", errors="replace")
        delimiter = "\t" if source.head.name.lower().endswith((".tsv", ".tab")) else ""
        self.dialect: Dialect = guess_dialect(
            text, lambda header: 2 * len(wanted.intersection(header)) + (len(header) > 1), delimiter
        ).dialect
        csv.field_size_limit(max(csv.field_size_limit(), source.limits.max_line_bytes))
        self.rows: int | None = None
        self.padded = 0
        """How many rows had fewer cells than the header."""

    def columns(self) -> Sequence[str]:
        """The cells of the first row that is not blank."""
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
        told = [""] * missing + [harmless(cell) for cell in cells]
        if self.dialect.quoted:
            made = io.StringIO()
            csv.writer(made, delimiter=self.dialect.delimiter, lineterminator="").writerow(told)
            more = made.getvalue()
        else:
            more = self.dialect.delimiter.join(told)
        kept = last.raw[: len(last.raw) - len(self._encoded(end))]
        tail = self._encoded(f"{self.dialect.delimiter}{more}{end}")
        return b"".join(line.raw for line in before) + kept + tail

    def _encoded(self, text: str) -> bytes:
        return text.encode(self._encoding, errors="replace")

    # ----------------------------------------------------------------------------- reading
    def _rows(self) -> Iterator[tuple[list[_Line], list[str]]]:
        """The rows with the lines that each of them takes."""
        read: list[_Line] = []
        number = first = 0

        def lines() -> Iterator[str]:
            nonlocal number
            for number, line in enumerate(self._lines(), 1):
                read.append(line)
                yield line.text.rstrip("\r\n").removeprefix("\ufeff" * (number == 1)) + "\n"

        reader, width = self.dialect.rows(lines()), 0
        while True:
            first = number + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise bad_row(self._source.where(first), error) from error
            width = width or len(row)
            if len(row) > width:
                raise RecordError(
                    f"found {len(row)} cells, the header has {width}",
                    where=self._source.where(first),
                    hint="A cell that holds the delimiter must be quoted: mend that line.",
                )
            yield read.copy(), row
            read.clear()

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
                    raise not_utf8(where, raw, place + error.start, source.file) from error
                place += len(raw)
                if "\0" in text or len(raw) > longest:
                    what = "a NUL byte" if "\0" in text else f"longer than {longest:,} bytes"
                    hint = "The file may be damaged here." if "\0" in text else ""
                    raise RecordError(what, where=source.where(number), hint=hint)
                yield _Line(raw, text)


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


#: A workbook is held in memory, at some ten times its size.
_MOST_UNPACKED = 256 * 2**20
#: openpyxl makes a cell of each cell of a merged range.
_MOST_MERGED = 1_000_000
_PLACE = rb"([A-Z]{1,3})(\d{1,9})"
_MERGED = re.compile(rb'<(?:\w{1,20}:)?mergeCell\s[^<>]{0,200}?ref="' + _PLACE + b":" + _PLACE)
#: Numbers of rows that no sheet has: openpyxl makes all rows before them.
_FAR = re.compile(rb'<(?:\w{1,20}:)?row\s[^<>]{0,200}?r="\d{8}')
#: Rows of a Parquet file that are in memory at a time.
_GROUP = 65_536


def _library(name: str, kind: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{kind} files need {name.partition('.')[0]}", hint="pip install 'kglink[tables]'"
        ) from error


@contextmanager
def _naming(source: Source, kind: str) -> Iterator[None]:
    """Say which file is damaged: the libraries raise anything."""
    try:
        yield
    except (KglinkError, MemoryError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        raise SourceError(
            f"{source.label} cannot be read as {kind} ({reason})",
            hint="Save it again with the program that made it, or as CSV.",
        ) from error


class XlsxTable:
    """The first sheet of a workbook; styles, formulas and other sheets are kept."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._library = _library("openpyxl", "XLSX")
        self.rows: int | None = None
        with _naming(source, "XLSX"):
            self._has_macros = self._checked()

    def columns(self) -> Sequence[str]:
        """The cells of the first row."""
        with _naming(self._source, "XLSX"):
            return [str("" if cell is None else cell).strip() for cell in next(self._values(), ())]

    def write(self, out: BinaryIO, wanted: Sequence[int], added: Sequence[str], by: Answer) -> None:
        """Write the workbook with the cells behind the last column."""
        with _naming(self._source, "XLSX"), self._source.open_raw() as raw:
            book = self._library.load_workbook(raw, keep_vba=self._has_macros)
        sheet, width = book.worksheets[0], len(self.columns())
        self.rows = sheet.max_row - 1
        rows = self._values()
        next(rows)

        def asked() -> Iterator[Sequence[Cell]]:
            for row in rows:
                yield [row[at] if at < len(row) else None for at in wanted]

        self._set(sheet, 1, width, added)
        for number, cells in enumerate(by(asked()), 2):
            self._set(sheet, number, width, cells)
        book.save(out)

    def _set(self, sheet: Any, row: int, width: int, cells: Added) -> None:
        for column, cell in enumerate(cells, width + 1):
            if cell != "":
                value = printable_line(harmless(cell)) if isinstance(cell, str) else cell
                sheet.cell(row, column, value)

    def _values(self) -> Iterator[Sequence[Cell]]:
        """The rows as values: of formulas what they gave when the workbook was saved."""
        with _naming(self._source, "XLSX"), self._source.open_raw() as raw:
            book = self._library.load_workbook(raw, read_only=True, data_only=True)
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # which may be anything
            yield from sheet.iter_rows(values_only=True)

    def _checked(self) -> bool:
        """Refuse archives made to fill the memory; whether the workbook has macros."""
        source, merged = self._source, 0
        with source.open_raw() as raw, zipfile.ZipFile(cast("IO[bytes]", raw)) as archive:
            names = archive.namelist()
            size = sum(one.file_size for one in archive.infolist())
            source.limits.check_growth(source.label, source.bytes_total, size)
            if size > _MOST_UNPACKED:
                raise SourceError(
                    f"{source.label} unpacks to {size / 2**20:,.0f} MB, and "
                    f"{_MOST_UNPACKED >> 20} MB are the most",
                    hint="Save it as CSV or Parquet, which are read as a stream.",
                )
            if "xl/workbook.xml" not in names:
                raise SourceError(
                    f"{source.label} is a zip archive, and no XLSX file",
                    hint="Unpack it first; tables are CSV, TSV, XLSX or Parquet.",
                )
            for name in names:
                if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                    sheet = archive.read(name)
                    if _FAR.search(sheet):
                        raise SourceError(
                            f"{source.label} has rows that no sheet has", hint="Save it as CSV."
                        )
                    for found in _MERGED.finditer(sheet):
                        left, top, right, bottom = found.groups()
                        wide = abs(_column(right) - _column(left)) + 1
                        merged += wide * (abs(int(bottom) - int(top)) + 1)
        if merged > _MOST_MERGED:
            raise SourceError(f"{source.label} merges {merged:,} cells", hint="Save it as CSV.")
        return any(name.endswith("vbaProject.bin") for name in names)


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


class ParquetTable:
    """A Parquet file, read and written in groups of rows."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._parquet = _library("pyarrow.parquet", "Parquet")
        self._arrow = import_module("pyarrow")
        with _naming(source, "Parquet"):
            self._file = self._parquet.ParquetFile(
                io.BufferedReader(cast("io.RawIOBase", source.open_raw()))
            )
            told = self._file.metadata
            size = sum(told.row_group(at).total_byte_size for at in range(told.num_row_groups))
            source.limits.check_growth(source.label, source.bytes_total, size)
            self.rows: int | None = told.num_rows

    def columns(self) -> Sequence[str]:
        """The names in the schema."""
        return [str(name) for name in self._file.schema_arrow.names]

    def write(self, out: BinaryIO, wanted: Sequence[int], added: Sequence[str], by: Answer) -> None:
        """Write the file with the columns behind its own; numbers are numbers."""
        arrow, waiting, made = self._arrow, deque[Any](), list[Added]()
        schema = self._file.schema_arrow
        for name in added:
            kind = arrow.float64() if name.endswith("probability") else arrow.string()
            schema = schema.append(arrow.field(name, kind))

        def asked() -> Iterator[Sequence[Cell]]:
            with _naming(self._source, "Parquet"):
                for batch in self._file.iter_batches(batch_size=_GROUP):
                    waiting.append(batch)
                    cells = (batch.column(at).to_pylist() for at in wanted)
                    yield from zip(*cells, strict=True)

        with self._parquet.ParquetWriter(out, schema, compression=self._compression()) as writer:
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
        told = self._file.metadata
        if not told.num_row_groups or not told.num_columns:
            return "snappy"
        name = str(told.row_group(0).column(0).compression).lower()
        return "none" if name == "uncompressed" else name


TableFile = TextTable | XlsxTable | ParquetTable


def opened_table(source: Source, columns: Sequence[str]) -> TableFile:
    """The table in a file, whose kind is known by its first bytes; ``columns`` are wanted of it."""
    head = source.head.head
    if source.is_zip:
        return XlsxTable(source)
    if head.startswith(b"PAR1"):
        return ParquetTable(source)
    return TextTable(source, columns)
