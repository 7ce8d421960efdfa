"""Building a space: a segment for each KB, one joint index over all, published at once.

Readers see the old version until the file ``CURRENT`` is replaced; kill -9 at any moment leaves
that version readable and the finished segments (and the vectors of an unfinished one) to be
found by the next build.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kglink.config import SpaceSection
from kglink.errors import DamagedSpaceError, SpaceError
from kglink.files.manifest import file_info, library_versions
from kglink.models.source import ModelInfo
from kglink.records import OnProgress, Progress
from kglink.space.folder import INDEX_FILE, SpaceFolder
from kglink.space.index import chosen_index, now, vector_batches, write_version
from kglink.space.manifest import (
    ROW_KINDS,
    RowKind,
    SegmentInfo,
    SpaceManifest,
)
from kglink.space.segment import INFO_FILE, Segment
from kglink.space.segment_build import SegmentPlan, TextEncoder, build_segment, changed_meanwhile
from kglink.space.space import BackendOf, row_spans

if TYPE_CHECKING:
    from kglink.store.entity_reader import FoldedEntity


@dataclass(frozen=True, slots=True)
class SpaceSource:
    """A KB to put into a space: what it holds now, and how to read it."""

    kb: str
    revision: int
    content: str
    licence: str
    entities: Callable[[], Iterable[FoldedEntity]]
    unchanged: Callable[[], bool]
    """Whether the KB still holds ``content``: asked once more after its segment is built."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did."""

    manifest: SpaceManifest
    encoded_rows: int
    reused_rows: int
    truncated_texts: int
    index_bytes: int


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
    progress: OnProgress = lambda _: None,
) -> BuildReport:
    """Build and publish the space of these KBs, reusing whatever is still right.

    ``fresh`` reuses nothing; readers keep the old version until the new one is whole all the same.
    """
    # Asked for now: an index that cannot be made must not be found out after an hour of encoding.
    index = chosen_index(settings, folder.usable_manifest())
    backend = backend_of(index.name, index.settings)
    if not sources:
        raise SpaceError("there is no KB with entities yet", hint="Run `kglink add-kb` first.")
    with folder.writing():
        maker = _SegmentMaker(folder, model, encoder, settings, fresh, progress)
        made = [maker.segment(source) for source in sources]
        segments = {segment.kb: segment for segment, _ in made}
        progress(Progress("building the index"))
        with folder.new_version() as version:
            backend.build(vector_batches(segments.values()), model.dim).save(version / INDEX_FILE)
            manifest = SpaceManifest(
                name=folder.name,
                created=now(),
                model=model,
                segments={kb: segment.folder.name for kb, segment in segments.items()},
                revisions={kb: segment.info.revision for kb, segment in segments.items()},
                spans=row_spans(segments),
                index=index.name,
                index_settings=dict(index.settings),
                index_file=file_info(version / INDEX_FILE),
                settings=dict(recorded_settings),
                libraries=library_versions(),
            )
            write_version(version, manifest)
        folder.drop_segments(set(manifest.segments.values()).__contains__)
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
    progress: OnProgress = lambda _: None,
) -> Segment:
    """One KB's segment, made where it is missing: the next build finds it ready."""
    with folder.writing():
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
        rows=row_kinds(settings),
        model=model,
        description_chars=settings.description_chars,
    )


def row_kinds(settings: SpaceSection) -> tuple[RowKind, ...]:
    """The rows that the settings name, else all that there are."""
    return tuple(sorted(set(settings.rows or ROW_KINDS), reverse=True))


def wanted_folder(source: SpaceSource, model: ModelInfo, settings: SpaceSection) -> str:
    """The name of the segment that a KB should have in the space."""
    return plan_of(source, model, settings).folder_name


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
        and (manifest.index, manifest.index_settings) == chosen_index(settings, manifest)
    )


@dataclass(frozen=True, slots=True)
class _SegmentMaker:
    """Finds or makes the segments of one build."""

    folder: SpaceFolder
    model: ModelInfo
    encoder: TextEncoder
    settings: SpaceSection
    fresh: bool
    progress: OnProgress

    def segment(self, source: SpaceSource) -> tuple[Segment, bool]:
        """The segment of a KB, and whether it had to be made."""
        path = self.folder.segments / wanted_folder(source, self.model, self.settings)
        if not self.fresh and (path / INFO_FILE).is_file():
            with contextlib.suppress(DamagedSpaceError):
                return Segment(path), False
        build_segment(
            plan_of(source, self.model, self.settings),
            source.entities,
            self.encoder,
            self.folder.segments,
            previous=None if self.fresh else self._previous(source.kb),
            fresh=self.fresh,
            progress=self.progress,
        )
        if not source.unchanged():
            shutil.rmtree(path)
            raise changed_meanwhile(source.kb)
        return Segment(path), True

    def _previous(self, kb: str) -> Segment | None:
        """The KB's published segment, or its newest where none is, to copy vectors from."""
        manifest = self.folder.usable_manifest()
        if manifest is not None:
            names = [manifest.segments[kb]] if kb in manifest.segments else []
        else:
            names = self._made_segments(kb)
        for name in names:
            with contextlib.suppress(DamagedSpaceError):
                return Segment(self.folder.segments / name)
        return None

    def _made_segments(self, kb: str) -> list[str]:
        """The finished segments of a KB, the newest first."""
        made = [
            path
            for path in self.folder.segments.glob(f"{kb}-*/{INFO_FILE}")
            if path.parent.name.rpartition("-")[0] == kb
        ]
        made.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        return [path.parent.name for path in made]


def _row_count(info: SegmentInfo) -> int:
    return sum(info.entities if kind == "text" else info.alias_rows for kind in info.rows)
