"""Entities and annotated texts in tables that are no text: XLSX workbooks and Parquet files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

from kglink.errors import SourceError, UnknownNameError
from kglink.records import Record
from kglink.sources import Problems, Source, SourceHead
from kglink.sources.compression import PARQUET_MAGIC
from kglink.sources.tables import LOOKED_AT, Workbook, naming_damage, opened_parquet, sheet_text
from kglink_kbs.archives import archive_names
from kglink_kbs.jsonl import ENOUGH, JsonlAdapter, JsonSettings, document_share
from kglink_kbs.spellings import ENTITY, find_fields
from kglink_kbs.tabular import GUESSED, TableSettings, entities, header_among, tell_header

#: What no other archive has; .xlsb files have the same as .bin.
_PART = re.compile(r"xl/(?:workbook|worksheets/[^/]+)\.xml")
#: Rows by which columns are guessed.
_SAMPLE = 1_000


class WorkbookSettings(TableSettings):
    """Settings of ``kglink/xlsx``."""

    sheet: str = ""
    """Name of the sheet to read; the first if empty."""


class WorkbookAdapter:
    """Reads one entity from each row of a sheet."""

    def __init__(self, settings: WorkbookSettings) -> None:
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """The entities of the sheet in their order; cells right of the header are passed over."""
        book = Workbook(source)
        sheet = self._settings.sheet or book.first
        if sheet not in book.parts:
            raise UnknownNameError(f"sheet of {source.label}", sheet, list(book.parts))
        if others := [name for name in book.parts if name != sheet]:
            problems.tell("sheet", f"{sheet}; not read: {', '.join(others)} (--set sheet=NAME)")
        if book.lacks_values(sheet):
            problems.tell("formulas", "some have no value: save it once with a spreadsheet program")
        rows = enumerate(book.rows(sheet), 1)
        filled = ((number, row) for number, row in rows if any(map(sheet_text, row)))
        top = [(number, list(map(sheet_text, row))) for number, row in islice(filled, LOOKED_AT)]
        if not top:
            raise SourceError(f"the sheet {sheet!r} of {source.label} is empty")
        at = header_among([row for _, row in top], self._settings.chosen())
        number, header = top[at]
        width = max(column for column, name in enumerate(header, 1) if name)
        header, place = header[:width], source.where(number)
        if at:
            tell_header(place, problems)
        read = ((number, list(map(sheet_text, row[:width]))) for number, row in rows)
        below = chain(top[at + 1 :], read)
        whole = ((number, (row + [""] * width)[:width]) for number, row in below if any(row))
        first = list(islice(whole, _SAMPLE))
        places = ((source.where(number), row) for number, row in chain(first, whole))
        sample = [row for _, row in first]
        return entities(source, place, header, sample, places, self._settings, problems)


def sniff_workbook(head: SourceHead) -> float:
    """Sure of an archive with the parts of a workbook."""
    is_workbook = any(map(_PART.fullmatch, archive_names(head)))
    named = head.name.lower().endswith((".xlsx", ".xlsm")) and head.head.startswith(b"PK")
    return 0.95 if is_workbook else 0.6 * named


#: The time of a day, in a column of times where it says nothing.
_MIDNIGHT = re.compile(r" 00:00:00(?:\.0+)?Z?$")
#: Rows that are in memory at a time.
_BATCH = 1_024


class ParquetSettings(TableSettings, JsonSettings):
    """Settings of ``kglink/parquet``."""


class ParquetAdapter:
    """Reads a record from each row; ``line 3`` of a message is the third.

    A table of plain cells is read as CSV with the same cells is; one whose fields are lists, or
    that holds texts with mentions, as JSON with the same fields.
    """

    def __init__(self, settings: ParquetSettings) -> None:
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """The records of the rows in their order."""
        file, settings = opened_parquet(source), self._settings
        header = file.schema_arrow.names
        rows = enumerate(_rows(file, source), 1)
        first = list(islice(rows, ENOUGH))
        sample = [dict(zip(header, row, strict=True)) for _, row in first]
        nested = [field.name for field in file.schema_arrow if field.type.num_fields]
        asked = (name.partition(".")[0] for name in settings.chosen().values())
        has_lists = find_fields(nested, ENTITY) or not set(nested).isdisjoint(asked)
        if has_lists or (sample and document_share(sample) > 0.5):
            if settings.separator == GUESSED:
                settings = settings.model_copy(update={"separator": ""})
            every = chain(first, rows)
            objects = ((number, dict(zip(header, row, strict=True))) for number, row in every)
            return JsonlAdapter(settings).records(source, sample, objects, problems)
        places = ((source.where(number), _texts(row)) for number, row in chain(first, rows))
        cells = [_texts(row) for _, row in first]
        return entities(source, source.label, header, cells, places, settings, problems)


def _rows(file: Any, source: Source) -> Iterator[Sequence[object]]:
    """The cells of each row; columns may have one name."""
    with naming_damage(source, "Parquet"):
        for batch in file.iter_batches(batch_size=_BATCH):
            yield from zip(*map(_cells, batch.columns), strict=True)


def _cells(column: Any) -> list[object]:
    """The cells of a column as JSON would have them; days and times as text."""
    import pyarrow.types as kinds

    kind = column.type
    if kinds.is_timestamp(kind) or kinds.is_date(kind) or kinds.is_time(kind):
        # Python's own have fewer digits, and fewer years.
        return [text and _MIDNIGHT.sub("", text) for text in column.cast("string").to_pylist()]
    return list(map(_plain, column.to_pylist()))


def _texts(row: Sequence[object]) -> list[str]:
    return ["" if cell is None else str(cell) for cell in row]


def _plain(cell: object) -> object:
    """A cell as JSON would have it: what JSON does not know becomes text."""
    match cell:
        case list() | tuple():
            return list(map(_plain, cell))
        case dict():
            return {name: _plain(one) for name, one in cell.items()}
        case float():
            return None if math.isnan(cell) else int(cell) if cell.is_integer() else cell
        case None | bool() | int() | str():
            return cell
        case bytes():
            return cell.decode("utf-8", errors="replace")
        case _:
            return str(cell)


def sniff_parquet(head: SourceHead) -> float:
    """Sure of its first bytes."""
    return 0.95 if head.head.startswith(PARQUET_MAGIC) else 0.0
