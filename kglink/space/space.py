"""A space as readers see it: the last published version, all KBs in one joint index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kglink.errors import DamagedSpaceError, SpaceError, UnknownNameError
from kglink.files.digest import digest_of
from kglink.files.manifest import check_files
from kglink.plugins import NameRow, RowRange
from kglink.records import EntityId
from kglink.space.folder import (
    INDEX_FILE,
    MANIFEST_FILE,
    SpaceFolder,
    build_command,
    index_files,
)
from kglink.space.manifest import RowKind, RowSpan, SpaceManifest, read_part, space_errors
from kglink.space.segment import Segment

if TYPE_CHECKING:
    from kglink.plugins import IndexBackend, VectorIndex

#: Finds an index back end by its name and settings.
BackendOf = Callable[[str, Mapping[str, str | int | float | bool]], "IndexBackend"]
FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


class Space:
    """Read access to one published version."""

    def __init__(self, folder: SpaceFolder, backend_of: BackendOf) -> None:
        version = folder.current
        if version is None:
            raise folder.not_built()
        # Of this version: a build may have replaced the pointer since.
        manifest = read_part(SpaceManifest, version / MANIFEST_FILE)
        self.folder = folder
        self.manifest = manifest
        self.version = version.name
        self.segments = {
            kb: Segment(folder.segments / name) for kb, name in manifest.segments.items()
        }
        if manifest.spans != row_spans(self.segments):
            raise DamagedSpaceError(f"{version / MANIFEST_FILE}: its rows are not its segments'")
        self._spans = {(span.kb, span.kind): span for span in manifest.spans}
        with space_errors():
            check_files(version, index_files(manifest))
        # Opened now: once it is mapped, a build may publish and remove what it likes.
        self._index: VectorIndex | None = None
        if manifest.index_file is not None:
            backend = backend_of(manifest.index, manifest.index_settings)
            self._index = backend.load(version / INDEX_FILE)
        if (self._index.size if self._index else 0) != manifest.rows:
            raise DamagedSpaceError(f"{version / INDEX_FILE}: not the index of its segments")

    @property
    def index(self) -> VectorIndex:
        """The joint index; an error where no KB has vectors yet."""
        if self._index is None:
            raise no_vectors(self.folder)
        return self._index

    def kbs(self, wanted: Sequence[str] = ()) -> tuple[str, ...]:
        """The wanted KBs, or all, in the order of the space."""
        for kb in wanted:
            if kb not in self.segments:
                raise UnknownNameError(
                    "KB",
                    kb,
                    self.segments,
                    hint=f"`{build_command(self.folder.name)}` puts every KB of the store into "
                    f"space {self.folder.name!r}.",
                )
        return tuple(kb for kb in self.segments if not wanted or kb in wanted)

    def has_rows(self, kind: RowKind, kb: str = "") -> bool:
        """Whether entities, of any or of one KB, own vectors of this kind."""
        return any(span.kind == kind and (not kb or span.kb == kb) for span in self.manifest.spans)

    def leaves_out(self, entity: EntityId) -> bool:
        """Whether an entity is of a KB of which some entities alone are found, and none of them."""
        segment = self.segments.get(entity.kb)
        return segment is not None and segment.rows is not None and segment.row(entity.key) < 0

    def nearest(
        self, queries: FloatArray, kb: str, kind: RowKind, k: int
    ) -> tuple[FloatArray, IntArray]:
        """The nearest rows of one KB and kind: products and row numbers within the segment.

        None of a KB that has no vectors of this kind.
        """
        if not self.has_rows(kind, kb):
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        span = self._spans[kb, kind]
        scores, rows = self.index.search(queries, k, [RowRange(span.start, span.stop)])
        return scores, np.where(rows >= 0, rows - span.start, -1)


def no_vectors(folder: SpaceFolder) -> SpaceError:
    """The error where vectors are asked for and no KB has any."""
    return SpaceError(
        f"space {folder.name!r} has no vectors yet", hint=f"Run `{build_command(folder.name)}`."
    )


def row_spans(segments: Mapping[str, Segment]) -> tuple[RowSpan, ...]:
    """Which rows of the joint index hold which vectors: KB by KB and kind by kind."""
    spans, start = [], 0
    for kb, segment in segments.items():
        for kind in segment.info.rows:
            stop = start + segment.row_count(kind)
            spans.append(RowSpan(kb=kb, kind=kind, start=start, stop=stop))
            start = stop
    return tuple(spans)


class SpaceNames:
    """The names of some KBs, as a mention detector reads them from disk, in order."""

    def __init__(self, space: Space, kbs: Sequence[str]) -> None:
        self._segments = [space.segments[kb] for kb in kbs]
        self.leaves_out = space.leaves_out
        self.fingerprint = digest_of([segment.fingerprint for segment in self._segments])
        self.cache_dir: Path | None = space.folder.path / "cache"

    def __len__(self) -> int:
        return sum(
            len(segment.surfaces if segment.alias_rows is None else segment.alias_rows)
            for segment in self._segments
        )

    def __iter__(self) -> Iterator[NameRow]:
        for segment in self._segments:
            counts = segment.alias_counts
            found = np.full(len(counts), segment.alias_rows is None)
            if segment.alias_rows is not None:
                found[segment.alias_rows] = True
            owners = np.repeat(np.arange(len(segment.keys)), np.diff(segment.alias_starts))
            key, last = "", -1
            rows = zip(segment.surfaces, segment.names.folded, strict=True)
            for at, (surface, folded) in enumerate(rows):
                if found[at]:
                    if owners[at] != last:
                        key, last = segment.keys[owners[at]], owners[at]
                    yield NameRow(surface, folded, segment.kb, int(counts[at]), key)
