"""Tables that libraries read: XLSX by openpyxl, Parquet by pyarrow (the extra `tables`)."""

from __future__ import annotations

import io
import re
import zipfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import IO, Any, BinaryIO, cast

from kglink.errors import KglinkError, SourceError, UsageError
from kglink.sources import Source
from kglink.text.printable import printable_line
from kglink_cli.table_files import Added, Answer, Cell, TableFile, TextTable, harmless

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


def opened_table(source: Source, columns: Sequence[str]) -> TableFile:
    """The table in a file, whose kind is known by its first bytes; ``columns`` are wanted of it."""
    head = source.head.head
    if source.is_zip:
        return XlsxTable(source)
    if head.startswith(b"PAR1"):
        return ParquetTable(source)
    return TextTable(source, columns)
