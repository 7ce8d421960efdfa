"""faiss as every back end here uses it: configured, its errors translated, its files checked."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kglink.errors import SpaceError
from kglink.files.atomic import atomic_path
from kglink.models.hardware import usable_cores
from kglink.plugins import RowRange

#: The module, untyped: its stubs miss classes and keyword arguments that it has.
faiss: Any = importlib.import_module("faiss")

#: From this many queries on, a matrix product is faster than one scan per query. faiss 1.15 has
#: 128,000 here, with which a batch of 64 queries takes six times as long.
_BLAS_FROM = 4
#: Rows of one matrix product. faiss waits for all threads after each; with its 1,024 that is a
#: hundred times for 100,000 rows, ten times slower wherever another process wants a core.
_BLAS_ROWS = 16384

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
def faiss_errors(what: str, hint: str = "") -> Iterator[None]:
    """Turn what faiss raises into a `SpaceError` that says what was being done."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise SpaceError(f"{what}: {_reason(error)}", hint=hint) from error


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


def read_index(path: Path) -> Any:
    """Open an index file, memory-mapped, and refuse anything but a whole one of `write_index`."""
    rows, dim = _read_trailer(path)
    with faiss_errors(f"{path}: this is no whole index", hint="Build the space again."):
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    inner_product = index.metric_type == faiss.METRIC_INNER_PRODUCT
    if (index.ntotal, index.d) != (rows, dim) or not inner_product:
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


def _reason(error: BaseException) -> str:
    """The sentence in a faiss message, without the C++ function and file before it."""
    return str(error).rpartition("failed: ")[2].rpartition("Error: ")[2].strip()
