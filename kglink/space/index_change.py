"""Another index for a space: built from the vectors that lie there, published as a new version.

kill -9 at any moment leaves the version before it readable; what was half-made is removed by the
next change or build.
"""

from __future__ import annotations

import datetime
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kglink.files.atomic import sync_file, write_atomically
from kglink.files.manifest import FileInfo, damaged_files, file_info, library_versions
from kglink.space.index_choice import IndexChoice
from kglink.space.manifest import SpaceManifest
from kglink.space.publish import (
    build_lock,
    next_version,
    publish,
    save_index,
    told_of_full_disks,
    vector_batches,
)
from kglink.space.segment import Segment
from kglink.space.space import INDEX_FILE, MANIFEST_FILE, BackendOf, SpaceFolder, not_built

if TYPE_CHECKING:
    from kglink.plugins import IndexBackend, VectorIndex


@dataclass(frozen=True, slots=True)
class IndexChange:
    """What a change did."""

    before: IndexChoice
    manifest: SpaceManifest
    seconds: float
    rebuilt: bool
    """False: the file stayed as it was, and only how it is searched was changed."""


@dataclass(frozen=True, slots=True)
class TrialIndex:
    """An index that was built and belongs to no space."""

    index: VectorIndex
    bytes: int
    seconds: float


def published_manifest(folder: SpaceFolder) -> SpaceManifest:
    """The manifest of the published version; an error where there is none."""
    manifest = folder.manifest()
    if manifest is None:
        raise not_built(folder)
    return manifest


def has_whole_index(folder: SpaceFolder) -> bool:
    """Whether the published index is the file that was written."""
    version, manifest = folder.current, published_manifest(folder)
    return version is not None and not damaged_files(
        version, {INDEX_FILE: manifest.index_file}, thorough=True
    )


def change_index(
    folder: SpaceFolder, choice: IndexChoice, backend_of: BackendOf, *, keep_file: bool = False
) -> IndexChange:
    """Publish the space with another index; nothing is encoded.

    With ``keep_file`` the index stays the file that it is: only settings of searching differ.
    """
    backend = backend_of(choice.name, choice.settings)
    with told_of_full_disks(folder), build_lock(folder):
        before = published_manifest(folder)
        old = folder.current
        version = next_version(folder)
        version.mkdir()
        began = time.perf_counter()
        if keep_file and old is not None:
            written = _copied_index(old, version)
        else:
            written = save_index(_build(backend, folder, before), version)
        backend.load(version / INDEX_FILE)  # What cannot be opened must not be published.
        seconds = time.perf_counter() - began
        manifest = before.model_copy(
            update={
                "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "index": choice.name,
                "index_settings": dict(choice.settings),
                "index_file": written,
                "libraries": library_versions(),
            }
        )
        write_atomically(version / MANIFEST_FILE, manifest.model_dump_json(indent=1))
        publish(folder, version)
    return IndexChange(
        IndexChoice(before.index, before.index_settings), manifest, seconds, not keep_file
    )


@contextmanager
def trial_index(
    folder: SpaceFolder, choice: IndexChoice, backend_of: BackendOf
) -> Iterator[TrialIndex]:
    """An index of the published vectors in a temporary file, opened as a published one is."""
    manifest = published_manifest(folder)
    backend = backend_of(choice.name, choice.settings)
    with tempfile.TemporaryDirectory(prefix="kglink-index-") as scratch:
        path = Path(scratch) / INDEX_FILE
        began = time.perf_counter()
        _build(backend, folder, manifest).save(path)
        seconds = time.perf_counter() - began
        yield TrialIndex(backend.load(path), path.stat().st_size, seconds)


def _build(backend: IndexBackend, folder: SpaceFolder, manifest: SpaceManifest) -> VectorIndex:
    segments = [Segment(folder.segments / name) for name in manifest.segments.values()]
    return backend.build(vector_batches(segments), manifest.model.dim)


def _copied_index(old: Path, version: Path) -> FileInfo:
    shutil.copyfile(old / INDEX_FILE, version / INDEX_FILE)
    sync_file(version / INDEX_FILE)
    return file_info(version / INDEX_FILE)
