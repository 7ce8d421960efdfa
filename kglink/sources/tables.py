"""XLSX workbooks and Parquet files, opened within the limits of every packed source."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, time
from importlib import import_module
from itertools import islice
from typing import Any, cast

from kglink.errors import KglinkError, SourceError, UsageError
from kglink.sources.source import Source

#: A cell as its file has it.
Cell = object
#: The most that a sheet of Excel holds.
MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
#: Rows of any table among which its header is looked for: headings may stand above it.
LOOKED_AT = 12
#: The strings of a workbook are held in memory.
_MOST_UNPACKED = 256 * 2**20
#: A format by which a number has leading zeros, such as an article's.
_WITH_ZEROS = re.compile("00+")
#: A formula without a value; one that gives an empty text has a type. It is looked for in so much.
_NOT_COMPUTED = re.compile(
    rb'<c\b(?![^<>]*\bt="str")[^<>]*><f\b[^<>]*(?:/>|>[^<]*</f>)(?:<v ?/>|<v></v>)?</c>'
)
_FORMULAS_IN = 1 << 20
_SAVE_AGAIN = "Save it again with the program that made it, or as CSV."


def _library(name: str, kind: str) -> Any:
    """The module that reads files of a kind."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{kind} files need {name.partition('.')[0]}", hint="pip install 'kglink[tables]'"
        ) from error


@contextmanager
def naming_damage(source: Source, kind: str) -> Iterator[None]:
    """Say which file is damaged: the libraries raise anything."""
    try:
        yield
    except (KglinkError, MemoryError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        raise SourceError(
            f"{source.label} cannot be read as {kind} ({reason})", hint=_SAVE_AGAIN
        ) from error


class Workbook:
    """An XLSX file whose size and checksums are checked."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._library = _library("openpyxl", "XLSX")
        # It warns of parts that it does not know: nothing here is written by it.
        warnings.filterwarnings("ignore", category=UserWarning, module="openpyxl")
        with naming_damage(source, "XLSX"):
            self._check()
            with self._book() as book:
                # The library knows it, and has no public name for it.
                parts = {sheet.title: sheet._worksheet_path for sheet in book.worksheets}
        if not parts:
            raise SourceError(f"{source.label} has no sheet with cells", hint=_SAVE_AGAIN)
        self.parts: Mapping[str, str] = parts
        """The part of the archive that holds each sheet, by its name."""

    @property
    def first(self) -> str:
        """The name of the first sheet."""
        return next(iter(self.parts))

    def rows(self, name: str, *, values_only: bool = False) -> Iterator[Sequence[Any]]:
        """The rows of a sheet: the library's cells, for `sheet_text`, or their values alone.

        The value of a formula is what it gave when the workbook was saved.
        """
        with naming_damage(self._source, "XLSX"), self._book() as book:
            for number, row in enumerate(_rows_of(book[name], values_only), 1):
                if number > MOST_ROWS:
                    raise too_many_rows(self._source.label)
                yield row

    def tops(self) -> Iterator[tuple[str, Iterator[Sequence[Any]]]]:
        """Each sheet, and the values of its first rows."""
        with naming_damage(self._source, "XLSX"), self._book() as book:
            for name in self.parts:
                yield name, islice(_rows_of(book[name], values_only=True), LOOKED_AT)

    def lacks_values(self, name: str) -> bool:
        """Whether a sheet begins with formulas that no program has computed: empty cells."""
        damage = naming_damage(self._source, "XLSX")
        with damage, self.archive() as archive, archive.open(self.parts[name]) as sheet:
            return _NOT_COMPUTED.search(sheet.read(_FORMULAS_IN)) is not None

    @contextmanager
    def archive(self) -> Iterator[zipfile.ZipFile]:
        """The archive that the workbook is."""
        with self._source.open_seekable() as raw, zipfile.ZipFile(raw) as archive:
            yield archive

    @contextmanager
    def _book(self) -> Iterator[Any]:
        with self._source.open_seekable() as raw:
            book = self._library.load_workbook(raw, read_only=True, data_only=True)
            try:
                yield book
            finally:
                book.close()

    def _check(self) -> None:
        """Refuse archives made to fill the memory, damaged ones, and those of something else."""
        source = self._source
        with self.archive() as archive:
            size = sum(one.file_size for one in archive.infolist())
            source.limits.check_growth(source.label, source.bytes_total, size)
            if size > _MOST_UNPACKED:
                raise SourceError(
                    f"{source.label} unpacks to {size / 2**20:,.0f} MB, and "
                    f"{_MOST_UNPACKED >> 20} MB are the most",
                    hint="Save it as CSV or Parquet, which may be of any size.",
                )
            if (damaged := archive.testzip()) is not None:
                raise SourceError(
                    f"{source.label} is damaged in its part {damaged!r}", hint=_SAVE_AGAIN
                )
            if "xl/workbook.xml" not in archive.namelist():
                raise SourceError(
                    f"{source.label} is a zip archive, and no XLSX file",
                    hint="Unpack it, or save it as XLSX: tables are CSV, TSV, XLSX or Parquet.",
                )


def _rows_of(sheet: Any, values_only: bool) -> Iterator[Sequence[Any]]:
    sheet.reset_dimensions()  # which may be anything
    rows: Iterator[Sequence[Any]] = sheet.iter_rows(values_only=values_only)
    return rows


def sheet_text(cell: Any) -> str:
    """A cell of a workbook as text; one that holds an error is empty."""
    value = cell.value
    if value is None or cell.data_type == "e":
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and _WITH_ZEROS.fullmatch(cell.number_format):
        return str(value).zfill(len(cell.number_format))
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    return str(value)


def too_many_rows(label: str) -> SourceError:
    """The error of a sheet that names a row beyond the last."""
    return SourceError(f"{label} has rows that no sheet has", hint="Save it as CSV.")


def opened_parquet(source: Source) -> Any:
    """The file, opened by its library."""
    parquet = _library("pyarrow.parquet", "Parquet")
    with naming_damage(source, "Parquet"):
        file = parquet.ParquetFile(io.BufferedReader(cast("io.RawIOBase", source.open_seekable())))
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        size = sum(group.total_byte_size for group in groups)
        source.limits.check_growth(source.label, source.bytes_total, size)
    return file
