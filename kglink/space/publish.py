"""Publishing a version of a space: one writer at a time, an index on disk, then the pointer."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kglink.errors import SpaceBusyError, SpaceError
from kglink.files.atomic import sync_file, write_atomically
from kglink.files.lock import file_lock
from kglink.files.manifest import FileInfo, file_info
from kglink.plugins import VectorIndex
from kglink.space.segment import Segment
from kglink.space.space import CURRENT_FILE, INDEX_FILE, SpaceFolder

_BATCH_ROWS = 65_536

FloatArray = npt.NDArray[np.float32]


@contextlib.contextmanager
def told_of_full_disks(folder: SpaceFolder) -> Iterator[None]:
    """What cannot be written becomes a `SpaceError` that says so."""
    try:
        yield
    except OSError as error:
        raise SpaceError(
            f"cannot write space {folder.name!r} in {folder.path}: {error.strerror or error}",
            hint="If the disk is full, free some of it and run the same command again: it goes on "
            "where it stopped. The published version is as it was.",
        ) from error


@contextlib.contextmanager
def build_lock(folder: SpaceFolder) -> Iterator[None]:
    """One writer of a space at a time; the system frees the lock of a process that dies."""
    folder.segments.mkdir(parents=True, exist_ok=True)
    folder.versions.mkdir(parents=True, exist_ok=True)
    busy = SpaceBusyError(
        f"space {folder.name!r} is being built by another process",
        hint="Wait until it is done, or use another space: `--space NAME`, or space.name.",
    )
    with file_lock(folder.path / "lock", busy):
        yield


def vector_batches(segments: Iterable[Segment]) -> Iterator[FloatArray]:
    """The rows of the joint index: KB by KB and kind by kind."""
    for segment in segments:
        for kind in segment.info.rows:
            for first in range(0, segment.row_count(kind), _BATCH_ROWS):
                yield segment.vectors(kind, slice(first, first + _BATCH_ROWS))


def next_version(folder: SpaceFolder) -> Path:
    """The folder of the version to come; one that a dead process left half-made is passed over."""
    published = [int(path.name) for path in folder.versions.iterdir() if path.name.isdigit()]
    return folder.versions / f"{max(published, default=0) + 1:06d}"


def save_index(index: VectorIndex, version: Path) -> FileInfo:
    """Write a version's index, down to the disk."""
    index.save(version / INDEX_FILE)
    sync_file(version / INDEX_FILE)
    return file_info(version / INDEX_FILE)


def publish(folder: SpaceFolder, version: Path) -> None:
    """Make a whole version the one that readers open, and remove the others.

    Whoever has an older one open goes on with it: open files stay readable.
    """
    write_atomically(folder.path / CURRENT_FILE, version.name + "\n")
    for path in folder.versions.iterdir():
        if path != version:
            shutil.rmtree(path)
