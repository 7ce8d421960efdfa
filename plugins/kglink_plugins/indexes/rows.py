"""What all back ends share: queries, ranges and order of rows; faiss, its errors and its files."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from kglink.arrays import FloatArray, IntArray
from kglink.errors import SpaceError, UsageError
from kglink.files.atomic import atomic_path
from kglink.models.hardware import usable_cores
from kglink.plugins import RowRange
from kglink.processor import import_faiss


def check_queries(queries: npt.ArrayLike, k: int, dim: int) -> FloatArray:
    """The queries as faiss wants them; refuse another dimension, NaN and a senseless ``k``."""
    if k < 1:
        raise UsageError(f"k = {k}: at least one row must be asked for")
    hint = "Encode queries with the model that the space was built with."
    return _checked(queries, dim, ("queries", "query"), hint=hint)


def _checked(
    given: npt.ArrayLike, dim: int, what: tuple[str, str], *, before: int = 0, hint: str = ""
) -> FloatArray:
    """Rows of finite numbers; ``what`` they are, all and one, of which some came ``before``."""
    rows = np.ascontiguousarray(given, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise SpaceError(
            f"{what[0]} of shape {rows.shape} for an index of dimension {dim}", hint=hint
        )
    if not np.isfinite(rows).all():
        row = before + int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise SpaceError(f"{what[1]} {row} holds NaN or infinity")
    return rows


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
            checked = _checked(batch, dim, ("a batch", "vector"), before=rows)
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


faiss = import_faiss()

#: From this many queries on, a matrix product is faster than one scan per query. faiss 1.15 has
#: 128,000 here, with which a batch of 64 queries takes six times as long.
_BLAS_FROM = 4
#: Rows of one matrix product. faiss waits for all threads after each; with its 1,024 that is a
#: hundred times for 100,000 rows, ten times slower wherever another process wants a core.
_BLAS_ROWS = 16384
#: The most products that one thread does alone: about 10 ms.
_ONE_THREAD = 1 << 26

#: What `write_index` puts behind faiss's bytes: magic, their number, rows, dimension. faiss maps
#: what a header promises and dies where a file ends early; a trailer is missing first.
_TRAILER = struct.Struct("<8sQqq")
_MAGIC = b"kglinkIX"


def configure_faiss() -> None:
    """Set what faiss keeps for the whole process; doing so again changes nothing."""
    faiss.cvar.distance_compute_blas_threshold = _BLAS_FROM
    faiss.cvar.distance_compute_blas_database_bs = _BLAS_ROWS
    cores = usable_cores()
    if faiss.omp_get_max_threads() > cores:
        faiss.omp_set_num_threads(cores)


@contextmanager
def threads_for(products: int) -> Iterator[None]:
    """Let faiss use one thread for a small search: ``products`` are queries times rows times width.

    Waking a second thread takes 8 to 20 ms on a busy machine, the whole search less than one.
    """
    threads = faiss.omp_get_max_threads()
    if threads == 1 or products > _ONE_THREAD:
        yield
        return
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


@contextmanager
def faiss_errors(what: str, hint: str = "") -> Iterator[None]:
    """Turn what faiss raises into a `SpaceError` that says what was being done."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        # Without the C++ function and file that stand before it.
        reason = str(error).rpartition("failed: ")[2].rpartition("Error: ")[2].strip()
        raise SpaceError(f"{what}: {reason}", hint=hint) from error


def selector_of(spans: Sequence[RowRange], size: int) -> Any:
    """Which rows take part: a range where it is one, else a bit for each row."""
    if len(spans) == 1:
        return faiss.IDSelectorRange(spans[0].start, spans[0].stop)
    chosen = np.zeros(size, dtype=np.uint8)
    for start, stop in spans:
        chosen[start:stop] = 1
    return faiss.IDSelectorBitmap(np.packbits(chosen, bitorder="little"))


def write_index(index: Any, path: Path) -> None:
    """Write an index, so that no open file is overwritten."""
    failed = f"{path}: the index cannot be written"
    try:
        with atomic_path(path) as draft:
            with faiss_errors(failed, hint="Check folder and space."):
                faiss.write_index(index, str(draft))
            with draft.open("ab") as file:
                file.write(_TRAILER.pack(_MAGIC, file.tell(), index.ntotal, index.d))
    except OSError as error:
        raise SpaceError(f"{failed}: {error.strerror}") from error


def read_index(path: Path, *, distances: bool = False) -> Any:
    """Open an index file, memory-mapped, and refuse anything but a whole one of `write_index`.

    ``distances``: it compares by these, not by inner products.
    """
    rows, dim = _read_trailer(path)
    with faiss_errors(f"{path}: this is no whole index", hint="Build the space again."):
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    metric = faiss.METRIC_L2 if distances else faiss.METRIC_INNER_PRODUCT
    if (index.ntotal, index.d, index.metric_type) != (rows, dim, metric):
        raise SpaceError(f"{path}: this index is damaged", hint="Build the space again.")
    return index


def _read_trailer(path: Path) -> tuple[int, int]:
    """Rows and dimension of a whole index file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TRAILER.size))
            tail = file.read()
    except OSError as error:
        raise SpaceError(
            f"{path}: the index cannot be read: {error.strerror}", hint="Build the space again."
        ) from error
    if len(tail) == _TRAILER.size:
        magic, length, rows, dim = _TRAILER.unpack(tail)
        if magic == _MAGIC and length + _TRAILER.size == size:
            return rows, dim
    raise SpaceError(
        f"{path}: this is no whole index that kglink wrote", hint="Build the space again."
    )
