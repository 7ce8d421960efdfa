"""What all back ends share: checking a query, row ranges, streaming rows in, ordering rows out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from kglink.errors import SpaceError, UsageError
from kglink.plugins import RowRange

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


def check_queries(queries: npt.ArrayLike, k: int, dim: int) -> FloatArray:
    """The queries as faiss wants them; refuse another dimension, NaN and a senseless ``k``."""
    if k < 1:
        raise UsageError(f"k = {k}: at least one row must be asked for")
    checked = np.ascontiguousarray(queries, dtype=np.float32)
    if checked.ndim != 2 or checked.shape[1] != dim:
        raise SpaceError(
            f"queries of shape {checked.shape} for an index of dimension {dim}",
            hint="Encode queries with the model that the space was built with.",
        )
    if not np.isfinite(checked).all():
        row = int(np.flatnonzero(~np.isfinite(checked).all(axis=1))[0])
        raise SpaceError(f"query {row} holds NaN or infinity")
    return checked


def merge_ranges(ranges: Sequence[RowRange] | None, size: int) -> list[RowRange]:
    """The ranges in order, empty ones left out, overlapping and touching ones made one."""
    if ranges is None:
        ranges = [RowRange(0, size)]
    merged: list[RowRange] = []
    for start, stop in sorted(ranges):
        if not 0 <= start <= stop <= size:
            raise SpaceError(
                f"row range [{start}, {stop}) does not fit an index of {size:,} rows",
                hint="The manifest is of another index. Build the space again.",
            )
        if start == stop:
            continue
        if merged and start <= merged[-1].stop:
            merged[-1] = RowRange(merged[-1].start, max(stop, merged[-1].stop))
        else:
            merged.append(RowRange(start, stop))
    return merged


def row_count(ranges: Iterable[RowRange]) -> int:
    """How many rows lie in ranges that do not overlap."""
    return sum(stop - start for start, stop in ranges)


def best_first(scores: FloatArray, rows: IntArray, k: int) -> tuple[FloatArray, IntArray]:
    """Order each query's rows by score, equal scores by row, and make them exactly ``k`` wide.

    Row -1 means that there is none; it comes last, with the score -inf.
    """
    scores = np.where(rows < 0, -np.inf, scores).astype(np.float32)
    last = np.iinfo(np.int64).max
    order = np.lexsort((np.where(rows < 0, last, rows), -scores), axis=1)[:, :k]
    missing = ((0, 0), (0, k - order.shape[1]))
    return (
        np.pad(np.take_along_axis(scores, order, axis=1), missing, constant_values=-np.inf),
        np.pad(np.take_along_axis(rows, order, axis=1), missing, constant_values=-1),
    )


def no_rows(queries: int, k: int) -> tuple[FloatArray, IntArray]:
    """The answer where no row takes part."""
    return np.full((queries, k), -np.inf, np.float32), np.full((queries, k), -1, np.int64)


def spool_rows(batches: Iterable[npt.ArrayLike], dim: int, file: BinaryIO) -> FloatArray:
    """Write all rows to ``file`` and map them: memory never holds more than a batch.

    Adding batch by batch to an index instead would copy it each time its memory is doubled.
    """
    rows = 0
    try:
        for batch in batches:
            checked = _check_batch(batch, dim, rows)
            file.write(checked.data)
            rows += len(checked)
        file.flush()
    except OSError as error:
        raise SpaceError(
            f"the rows cannot be written to {tempfile.gettempdir()}: {error.strerror}",
            hint="Set TMPDIR to a folder with more space.",
        ) from error
    if not rows:
        return np.empty((0, dim), np.float32)
    return np.memmap(file, np.float32, "r", shape=(rows, dim))


def _check_batch(batch: npt.ArrayLike, dim: int, before: int) -> FloatArray:
    rows = np.ascontiguousarray(batch, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise SpaceError(f"a batch of shape {rows.shape} for an index of dimension {dim}")
    if not np.isfinite(rows).all():
        row = before + int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise SpaceError(f"vector {row} holds NaN or infinity")
    return rows
