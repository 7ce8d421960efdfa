"""The joint index of a space: which one it gets, writing it, changing it without encoding."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kglink.arrays import FloatArray
from kglink.config import AUTO, SpaceSection
from kglink.errors import PluginError, errors_of
from kglink.files.manifest import file_info, library_versions, note_checked, now
from kglink.space.folder import (
    INDEX_FILE,
    MANIFEST_FILE,
    SpaceFolder,
    index_files,
    link_or_copy,
)
from kglink.space.layers import open_segment
from kglink.space.manifest import SpaceManifest
from kglink.space.segment import Segment
from kglink.space.space import BackendOf, no_vectors

if TYPE_CHECKING:
    from kglink.plugins import VectorIndex

#: What a new space gets where nothing is set.
DEFAULT_INDEX = "kglink/flat"
_BATCH_ROWS = 65_536


class IndexChoice(NamedTuple):
    """A back end and its settings."""

    name: str
    settings: Mapping[str, str | int | float | bool]


#: What a space gets instead that grows beyond so many rows: a search of them takes a core 40 ms.
LARGE_INDEX = IndexChoice(  # the preset `rabitq`
    "kglink/faiss", {"factory": "IVF{lists},RaBitQ2", "oversampling": 4}
)
MOST_EXACT = 1_000_000


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


def chosen_index(
    settings: SpaceSection, manifest: SpaceManifest | None, rows: int = 0
) -> IndexChoice:
    """The back end that is set, else that of the published version.

    A space that grows beyond `MOST_EXACT` rows gets `LARGE_INDEX` in place of the exact one.
    """
    if settings.index != AUTO:
        return IndexChoice(settings.index, settings.index_settings)
    has, before = IndexChoice(DEFAULT_INDEX, {}), 0
    if manifest is not None:
        has, before = IndexChoice(manifest.index, manifest.index_settings), manifest.rows
    if has.name == DEFAULT_INDEX and before <= MOST_EXACT < rows:
        has = LARGE_INDEX
    return IndexChoice(has.name, settings.index_settings or has.settings)


def vector_batches(segments: Iterable[Segment]) -> Iterator[FloatArray]:
    """The rows of the joint index: KB by KB and kind by kind."""
    for segment in (one.indexed for one in segments):
        for kind in segment.info.rows:
            for first in range(0, segment.row_count(kind), _BATCH_ROWS):
                yield segment.vectors(kind, slice(first, first + _BATCH_ROWS))


def change_index(
    folder: SpaceFolder, choice: IndexChoice, backend_of: BackendOf, *, keep_file: bool = False
) -> IndexChange:
    """Publish the space with another index; nothing is encoded.

    With ``keep_file`` the index stays the file that it is: only settings of searching differ.
    """
    with folder.writing():
        old, before = folder.published()
        began = time.perf_counter()
        with folder.new_version() as version:
            if keep_file:
                shutil.copyfile(old / INDEX_FILE, version / INDEX_FILE)
                open_index(choice, backend_of, version / INDEX_FILE, before.rows)
            else:
                _built(choice, backend_of, version / INDEX_FILE, folder, before)
            seconds = time.perf_counter() - began
            manifest = before.model_copy(
                update={
                    "created": now(),
                    "index": choice.name,
                    "index_settings": dict(choice.settings),
                    "index_file": file_info(version / INDEX_FILE),
                    "libraries": library_versions(),
                }
            )
            write_version(version, manifest)
    return IndexChange(
        IndexChoice(before.index, before.index_settings), manifest, seconds, not keep_file
    )


def share_version(folder: SpaceFolder, other: SpaceFolder) -> SpaceManifest:
    """Publish what another space has under this name; vectors and index are links to its files.

    Whoever calls this is the only writer of both.
    """
    version, theirs = other.published()
    folder.copy_segments(other)
    manifest = theirs.model_copy(update={"name": folder.name, "created": now()})
    with folder.new_version() as draft:
        if manifest.index_file is not None:
            link_or_copy(version / INDEX_FILE, draft / INDEX_FILE)
        write_version(draft, manifest)
    folder.drop_segments(folder.segment_folders(manifest))
    return manifest


@contextmanager
def trial_index(
    folder: SpaceFolder, choice: IndexChoice, backend_of: BackendOf
) -> Iterator[TrialIndex]:
    """An index of the published vectors in a temporary file, opened as a published one is."""
    manifest = folder.published_manifest()
    with tempfile.TemporaryDirectory(prefix="kglink-index-") as scratch:
        path = Path(scratch) / INDEX_FILE
        began = time.perf_counter()
        index = _built(choice, backend_of, path, folder, manifest)
        yield TrialIndex(index, path.stat().st_size, time.perf_counter() - began)


def write_version(version: Path, manifest: SpaceManifest) -> None:
    """Write the manifest of a version beside its index."""
    (version / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
    note_checked(version, index_files(manifest))


def write_index(
    choice: IndexChoice,
    backend_of: BackendOf,
    path: Path,
    segments: Iterable[Segment],
    shape: tuple[int, int],
) -> VectorIndex:
    """Write an index of so many rows of so many numbers, and open it as searches will."""
    with errors_of(f"index back end {choice.name!r}"):
        vectors = vector_batches(segments)
        backend_of(choice.name, choice.settings).build(vectors, shape[1]).save(path)
    return open_index(choice, backend_of, path, shape[0])


def open_index(choice: IndexChoice, backend_of: BackendOf, path: Path, rows: int) -> VectorIndex:
    """Open an index that is to be published; one that lacks rows must not be."""
    with errors_of(f"index back end {choice.name!r}"):
        index = backend_of(choice.name, choice.settings).load(path)
        size = index.size
    if size != rows:
        raise PluginError(
            f"index back end {choice.name!r} made an index of {size:,} rows of {rows:,}",
            hint="An index holds the rows of all batches, in their order.",
        )
    return index


def _built(
    choice: IndexChoice,
    backend_of: BackendOf,
    path: Path,
    folder: SpaceFolder,
    manifest: SpaceManifest,
) -> VectorIndex:
    if not manifest.rows:
        raise no_vectors(folder)
    segments = [open_segment(folder.segments / name) for name in manifest.segments.values()]
    return write_index(choice, backend_of, path, segments, (manifest.rows, manifest.model.dim))
