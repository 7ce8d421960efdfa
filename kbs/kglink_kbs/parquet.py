"""Entities and annotated texts as Parquet.

A table of plain cells is read as CSV with the same cells is; one whose fields are lists, or that
holds texts with mentions, as JSON with the same fields.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

from kglink.records import Record
from kglink.sources import Problems, Source, SourceHead
from kglink.sources.compression import PARQUET_MAGIC
from kglink.sources.tables import naming_damage, opened_parquet
from kglink_kbs.jsonl import ENOUGH, JsonlAdapter, JsonSettings, document_share
from kglink_kbs.spellings import ENTITY, find_fields
from kglink_kbs.tabular import GUESSED, TableSettings, entities

#: The time of a day, in a column of times where it says nothing.
_MIDNIGHT = re.compile(r" 00:00:00(?:\.0+)?Z?$")
#: Rows that are in memory at a time.
_BATCH = 1_024


class ParquetSettings(TableSettings, JsonSettings):
    """Settings of ``kglink/parquet``."""


class ParquetAdapter:
    """Reads a record from each row; ``line 3`` of a message is the third."""

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


def sniff(head: SourceHead) -> float:
    """Sure of its first bytes."""
    return 0.95 if head.head.startswith(PARQUET_MAGIC) else 0.0
