"""Entities as a sheet of an XLSX workbook, with a row that names the columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice

from kglink.errors import SourceError, UnknownNameError
from kglink.records import Record
from kglink.sources import Problems, Source, SourceHead
from kglink.sources.tables import LOOKED_AT, Workbook, sheet_text
from kglink_kbs.archives import archive_names
from kglink_kbs.tabular import TableSettings, entities, header_among, tell_header

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


def sniff(head: SourceHead) -> float:
    """Sure of an archive with the parts of a workbook."""
    is_workbook = any(map(_PART.fullmatch, archive_names(head)))
    named = head.name.lower().endswith((".xlsx", ".xlsm")) and head.head.startswith(b"PK")
    return 0.95 if is_workbook else 0.6 * named
