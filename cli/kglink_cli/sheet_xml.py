"""The XML of a sheet of a workbook, read and written as a stream: cells are added, nothing else."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from typing import IO
from xml.parsers import expat
from xml.sax.saxutils import escape

from openpyxl.utils import column_index_from_string, get_column_letter

from kglink.sources.tables import MOST_ROWS, too_many_rows

_PIECE = 1 << 16
_DIMENSION = re.compile(rb"<(?:\w{1,20}:)?dimension\b[^<>/]*+/>")
#: What XML cannot hold, of what `printable_line` leaves.
_NOT_IN_XML = dict.fromkeys((0xFFFE, 0xFFFF), "\ufffd")
#: Added cells of one row, by its number; none: nothing is added.
CellsOf = Callable[[int], Sequence[str | float]]


class _Reader:
    """Follows rows and cells; ``at_end`` is told of each row where its cells end."""

    def __init__(self, label: str, at_end: Callable[[int, str], None] | None = None) -> None:
        self._label = label
        self._at_end = at_end
        self.row = self.column = self.columns = self.rows = 0
        self.last = self.start = 0
        """Where the last tag begins, and the last row."""
        self.is_childless = False
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse_entities
        self._parser.XmlDeclHandler = self._check_encoding

    def read(self, piece: bytes, *, is_last: bool = False) -> None:
        """Go on with the next bytes."""
        self._parser.Parse(piece, is_last)

    @property
    def place(self) -> int:
        """Where the tag begins that is read now."""
        return self._parser.CurrentByteIndex

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        self.last, name = self.place, tag.rpartition(":")[2]
        if name == "row":
            before, self.row = self.row, int(attributes.get("r") or self.row + 1)
            if self.row <= before:
                raise ValueError(f"row {self.row} comes behind row {before}")
            if self.row > MOST_ROWS:
                raise too_many_rows(self._label)
            self.start, self.is_childless, self.column = self.place, True, 0
            self.rows = max(self.rows, self.row)
            return
        self.is_childless = False
        if name == "c":
            letters = attributes.get("r", "").rstrip("0123456789")
            self.column = column_index_from_string(letters) if letters else self.column + 1
            self.columns = max(self.columns, self.column)

    def _end(self, tag: str) -> None:
        if self._at_end is not None and tag.rpartition(":")[2] == "row":
            self._at_end(self.row, tag.removesuffix("row"))

    def _refuse_entities(self, *_: object) -> None:
        raise ValueError("a sheet that declares entities")

    def _check_encoding(self, _: str, encoding: str | None, __: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "us-ascii"):
            raise ValueError(f"a sheet in {encoding}, not in UTF-8")


def size_of(sheet: IO[bytes], label: str) -> tuple[int, int]:
    """The last row and the last column that a sheet names; what is no sheet raises an error."""
    reader = _Reader(label)
    first = sheet.read(_PIECE)
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("a sheet in UTF-16, not in UTF-8")
    reader.read(first)
    while piece := sheet.read(_PIECE):
        reader.read(piece)
    reader.read(b"", is_last=True)
    return reader.rows, reader.columns


def with_cells(sheet: IO[bytes], label: str, first: int, cells_of: CellsOf) -> Iterator[bytes]:
    """The bytes of a sheet, its rows with cells added from column ``first`` on."""
    made: list[tuple[int, int, bytes]] = []
    waiting, base = bytearray(), 0

    def at_end(row: int, prefix: str) -> None:
        cells = _written(row, first, cells_of(row), prefix)
        if not cells:
            return
        place = reader.place
        tag = bytes(waiting[reader.start - base : place - base])
        if reader.is_childless and tag.endswith(b"/>"):  # <row/> has no end of its own
            made.append((place - 2, place, f">{cells}</{prefix}row>".encode()))
        else:
            made.append((place, place, cells.encode()))

    reader = _Reader(label, at_end)
    is_first = True
    while True:
        piece = sheet.read(_PIECE)
        if is_first:  # what says how far the sheet reaches may be missing, but not wrong
            head, rows, rest = piece.partition(b"sheetData")
            piece, is_first = _DIMENSION.sub(b"", head, 1) + rows + rest, False
        waiting += piece
        reader.read(piece, is_last=not piece)
        for start, stop, more in made:
            yield bytes(waiting[: start - base]) + more
            del waiting[: stop - base]
            base = stop
        made.clear()
        if not piece:
            yield bytes(waiting)
            return
        # A tag that this piece cuts begins behind the last whole one.
        if (whole := reader.last - base) > 0:
            yield bytes(waiting[:whole])
            del waiting[:whole]
            base += whole


def _written(row: int, first: int, cells: Sequence[str | float], prefix: str) -> str:
    """The XML of some cells of a row; empty ones are left out."""
    made = []
    for column, cell in enumerate(cells, first):
        place = f'<{prefix}c r="{get_column_letter(column)}{row}"'
        if isinstance(cell, str) and cell:
            text = (
                f'<{prefix}t xml:space="preserve">{escape(cell.translate(_NOT_IN_XML))}</{prefix}t>'
            )
            made.append(f'{place} t="inlineStr"><{prefix}is>{text}</{prefix}is></{prefix}c>')
        elif not isinstance(cell, str):
            made.append(f"{place}><{prefix}v>{cell!r}</{prefix}v></{prefix}c>")
    return "".join(made)
