"""Building a space: a segment for each KB, one joint index over all, published at once.

Readers see the old version until the file ``CURRENT`` is replaced; kill -9 at any moment leaves
that version readable and the finished segments (and the vectors of an unfinished one) to be
found by the next build.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kglink.config import SpaceSection
from kglink.errors import DamagedSpaceError, SpaceError
from kglink.protocols import IndexBackend
from kglink.records import Entity
from kglink.space.manifest import (
    ModelInfo,
    RowSpan,
    SegmentInfo,
    SpaceManifest,
    file_info,
    library_versions,
    write_atomically,
)
from kglink.space.segment import INFO_FILE, Segment
from kglink.space.segment_build import SegmentPlan, TextEncoder, build_segment
from kglink.space.space import CURRENT_FILE, INDEX_FILE, MANIFEST_FILE, BackendOf, SpaceFolder

_BATCH_ROWS = 65_536

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SpaceSource:
    """A KB to put into a space: what it holds now, and how to read it."""

    kb: str
    revision: int
    content: str
    licence: str
    entities: Callable[[], Iterator[Entity]]
    unchanged: Callable[[], bool]
    """Whether the KB still holds ``content``: asked once more after its segment is built."""
    published: str = ""
    """A KB that is half-way through an update stays as it was: the segment to keep."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did."""

    manifest: SpaceManifest
    encoded_rows: int
    reused_rows: int
    truncated_texts: int
    index_bytes: int


#: Called with a KB's name and how many of its rows were done since the last call.
BuildProgress = Callable[[str, int], None]


def build_space(
    folder: SpaceFolder,
    sources: Sequence[SpaceSource],
    model: ModelInfo,
    encoder: TextEncoder,
    backend_of: BackendOf,
    settings: SpaceSection,
    *,
    recorded_settings: Mapping[str, Any],
    fresh: bool = False,
    progress: BuildProgress = lambda kb, rows: None,
) -> BuildReport:
    """Build and publish the space of these KBs, reusing whatever is still right.

    ``fresh`` reuses nothing; readers keep the old version until the new one is whole all the same.
    """
    # Asked for now: an index that cannot be made must not be found out after an hour of encoding.
    backend = backend_of(settings.index, settings.index_settings)
    if not sources:
        raise SpaceError("there is no KB with entities yet", hint="Run `kglink add-kb` first.")
    with _told_of_full_disks(folder), _build_lock(folder):
        maker = _SegmentMaker(folder, model, encoder, settings, fresh, progress)
        made = [maker.segment(source) for source in sources]
        segments = {segment.kb: segment for segment, _ in made}
        version = _next_version(folder)
        manifest = _write_version(
            version, folder.name, segments, model, backend, settings, recorded_settings
        )
        write_atomically(folder.path / CURRENT_FILE, version.name + "\n")
        _remove_stale(folder, version, {segment.folder.name for segment in segments.values()})
    new = [segment.info for segment, is_new in made if is_new]
    encoded = sum(_row_count(info) - info.reused_rows for info in new)
    return BuildReport(
        manifest=manifest,
        encoded_rows=encoded,
        reused_rows=manifest.spans[-1].stop - encoded,
        truncated_texts=sum(info.truncated_texts for info in new),
        index_bytes=manifest.index_file.bytes,
    )


def make_segment(
    folder: SpaceFolder,
    source: SpaceSource,
    model: ModelInfo,
    encoder: TextEncoder,
    settings: SpaceSection,
    *,
    progress: BuildProgress = lambda kb, rows: None,
) -> Segment:
    """One KB's segment, made where it is missing: the next build finds it ready."""
    with _told_of_full_disks(folder), _build_lock(folder):
        return _SegmentMaker(folder, model, encoder, settings, False, progress).segment(source)[0]


def has_segment(
    folder: SpaceFolder, source: SpaceSource, model: ModelInfo, settings: SpaceSection
) -> bool:
    """Whether a build would find the KB's segment ready."""
    return (folder.segments / wanted_folder(source, model, settings) / INFO_FILE).is_file()


def plan_of(source: SpaceSource, model: ModelInfo, settings: SpaceSection) -> SegmentPlan:
    """The segment that a KB needs with these settings."""
    return SegmentPlan(
        kb=source.kb,
        revision=source.revision,
        content=source.content,
        licence=source.licence,
        rows=tuple(sorted(set(settings.rows), reverse=True)),
        model=model,
        description_chars=settings.description_chars,
    )


def wanted_folder(source: SpaceSource, model: ModelInfo, settings: SpaceSection) -> str:
    """The name of the segment that a KB should have in the space."""
    return source.published or plan_of(source, model, settings).folder_name


def is_current(
    folder: SpaceFolder, sources: Sequence[SpaceSource], model: ModelInfo, settings: SpaceSection
) -> bool:
    """Whether the published version is what a build would make now."""
    manifest = folder.usable_manifest()
    if manifest is None:
        return False
    wanted = {source.kb: wanted_folder(source, model, settings) for source in sources}
    return (
        manifest.segments == wanted
        and list(manifest.segments) == list(wanted)
        and all((folder.segments / name).is_dir() for name in wanted.values())
        and manifest.index == settings.index
        and manifest.index_settings == settings.index_settings
    )


@dataclass(frozen=True, slots=True)
class _SegmentMaker:
    """Finds or makes the segments of one build."""

    folder: SpaceFolder
    model: ModelInfo
    encoder: TextEncoder
    settings: SpaceSection
    fresh: bool
    progress: BuildProgress

    def segment(self, source: SpaceSource) -> tuple[Segment, bool]:
        """The segment of a KB, and whether it had to be made."""
        path = self.folder.segments / wanted_folder(source, self.model, self.settings)
        if source.published or (not self.fresh and (path / INFO_FILE).is_file()):
            try:
                return Segment(path), False
            except DamagedSpaceError:
                if source.published:
                    raise
        build_segment(
            plan_of(source, self.model, self.settings),
            source.entities,
            self.encoder,
            self.folder.segments,
            previous=None if self.fresh else self._previous(source.kb),
            fresh=self.fresh,
            progress=lambda rows: self.progress(source.kb, rows),
        )
        if not source.unchanged():
            shutil.rmtree(path)
            raise SpaceError(
                f"KB {source.kb!r} changed while its segment was built",
                hint="Run the build again.",
            )
        return Segment(path), True

    def _previous(self, kb: str) -> Segment | None:
        """The KB's published segment, to copy vectors from."""
        manifest = self.folder.usable_manifest()
        if manifest is None or kb not in manifest.segments:
            return None
        try:
            return Segment(self.folder.segments / manifest.segments[kb])
        except DamagedSpaceError:
            return None


def _row_count(info: SegmentInfo) -> int:
    return sum(info.entities if kind == "text" else info.alias_rows for kind in info.rows)


def _write_version(
    version: Path,
    name: str,
    segments: Mapping[str, Segment],
    model: ModelInfo,
    backend: IndexBackend,
    settings: SpaceSection,
    recorded_settings: Mapping[str, Any],
) -> SpaceManifest:
    version.mkdir()
    index = backend.build(_vector_batches(segments.values()), model.dim)
    index.save(version / INDEX_FILE)
    with (version / INDEX_FILE).open("rb") as stream:
        os.fsync(stream.fileno())
    manifest = SpaceManifest(
        name=name,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        model=model,
        segments={kb: segment.folder.name for kb, segment in segments.items()},
        revisions={kb: segment.info.revision for kb, segment in segments.items()},
        spans=tuple(_spans(segments)),
        index=settings.index,
        index_settings=settings.index_settings,
        index_file=file_info(version / INDEX_FILE),
        settings=dict(recorded_settings),
        libraries=library_versions(),
    )
    write_atomically(version / MANIFEST_FILE, manifest.model_dump_json(indent=1))
    return manifest


def _spans(segments: Mapping[str, Segment]) -> Iterator[RowSpan]:
    start = 0
    for kb, segment in segments.items():
        for kind in segment.info.rows:
            stop = start + segment.row_count(kind)
            yield RowSpan(kb=kb, kind=kind, start=start, stop=stop)
            start = stop


def _vector_batches(segments: Iterable[Segment]) -> Iterator[FloatArray]:
    for segment in segments:
        for kind in segment.info.rows:
            for first in range(0, segment.row_count(kind), _BATCH_ROWS):
                yield segment.vectors(kind, slice(first, first + _BATCH_ROWS))


def _next_version(folder: SpaceFolder) -> Path:
    published = [int(path.name) for path in folder.versions.iterdir() if path.name.isdigit()]
    return folder.versions / f"{max(published, default=0) + 1:06d}"


def _remove_stale(folder: SpaceFolder, version: Path, segments: set[str]) -> None:
    """Remove what no reader of the new version needs; open files of old readers stay readable."""
    for path in folder.versions.iterdir():
        if path != version:
            shutil.rmtree(path)
    for path in folder.segments.iterdir():
        if path.name not in segments:
            shutil.rmtree(path)


@contextlib.contextmanager
def _told_of_full_disks(folder: SpaceFolder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SpaceError(
            f"cannot write space {folder.name!r} in {folder.path}: {error.strerror or error}",
            hint="If the disk is full, free some of it and run the same command again: it goes on "
            "where it stopped. The published version is as it was.",
        ) from error


@contextlib.contextmanager
def _build_lock(folder: SpaceFolder) -> Iterator[None]:
    """One build of a space at a time; the system frees the lock of a process that dies."""
    folder.segments.mkdir(parents=True, exist_ok=True)
    folder.versions.mkdir(parents=True, exist_ok=True)
    with (folder.path / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SpaceError(
                f"space {folder.name!r} is being built by another process",
                hint="Wait until it is done, or build another space with `--space NAME`.",
            ) from error
        yield
