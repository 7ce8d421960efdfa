"""A space as readers see it: the last published version, all KBs in one joint index."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kglink.errors import DamagedSpaceError, SpaceError, UnknownNameError
from kglink.files.manifest import damaged_files
from kglink.plugins import RowRange
from kglink.space.manifest import (
    ModelInfo,
    RowKind,
    SegmentInfo,
    SpaceManifest,
    read_part,
)
from kglink.space.segment import INFO_FILE, Segment

if TYPE_CHECKING:
    from kglink.plugins import IndexBackend, VectorIndex

CURRENT_FILE = "CURRENT"
MANIFEST_FILE = "manifest.json"
INDEX_FILE = "index.faiss"
_DEFAULT = "default"

#: Finds an index back end by its name and settings.
BackendOf = Callable[[str, Mapping[str, str | int | float | bool]], "IndexBackend"]
FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


class SpaceFolder:
    """Where the versions and segments of one space lie."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.path = root / name
        self.segments = self.path / "segments"
        self.versions = self.path / "versions"

    @property
    def current(self) -> Path | None:
        """The folder of the published version, None where nothing was published yet."""
        # Read once: a build may replace the pointer at any moment.
        name = self.pointer
        if name is None:
            return None
        version = self.versions / name
        if not name.isdigit() or not version.is_dir():
            raise DamagedSpaceError(f"{self.path / CURRENT_FILE}: names no version")
        return version

    @property
    def pointer(self) -> str | None:
        """What names the published version, None where nothing was published yet."""
        pointer = self.path / CURRENT_FILE
        return pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else None

    def usable_manifest(self) -> SpaceManifest | None:
        """The manifest of the published version, None where it is damaged as well."""
        try:
            return self.manifest()
        except DamagedSpaceError:
            return None

    def manifest(self) -> SpaceManifest | None:
        """The manifest of the published version."""
        folder = self.current
        return read_part(SpaceManifest, folder / MANIFEST_FILE) if folder else None

    def model(self) -> ModelInfo | None:
        """The model of the published version; where that is damaged, of its newest segment."""
        if not (self.path / CURRENT_FILE).is_file():
            return None
        if manifest := self.usable_manifest():
            return manifest.model
        found = sorted(self.segments.glob(f"*/{INFO_FILE}"), key=lambda path: path.stat().st_mtime)
        for path in reversed(found):
            with contextlib.suppress(SpaceError):
                return read_part(SegmentInfo, path).model
        return None

    def damage(self) -> list[str]:
        """Every file of the published version whose content is not what was written."""
        try:
            folder, manifest = self.current, self.manifest()
        except DamagedSpaceError as error:
            return [error.message]
        if folder is None or manifest is None:
            return []
        index_file = {INDEX_FILE: manifest.index_file}
        bad = [*map(str, damaged_files(folder, index_file, thorough=True))]
        for name in manifest.segments.values():
            try:
                segment = Segment(self.segments / name)
            except SpaceError as error:
                bad.append(error.message)
            else:
                files = segment.info.files
                bad += map(str, damaged_files(segment.folder, files, thorough=True))
        return bad


def space_names(root: Path) -> list[str]:
    """The spaces under a folder that were published."""
    if not root.is_dir():
        return []
    return sorted(path.parent.name for path in root.glob(f"*/{CURRENT_FILE}"))


def build_command(space: str) -> str:
    """What a user types to build a space."""
    return "kglink build" if space == _DEFAULT else f"kglink build --space {space}"


def not_built(folder: SpaceFolder) -> SpaceError:
    """The error where a space has no version."""
    return SpaceError(
        f"space {folder.name!r} is not built yet", hint=f"Run `{build_command(folder.name)}`."
    )


class Space:
    """Read access to one published version."""

    def __init__(self, folder: SpaceFolder, backend_of: BackendOf) -> None:
        version = folder.current
        if version is None:
            raise not_built(folder)
        # Of this version: a build may have replaced the pointer since.
        manifest = read_part(SpaceManifest, version / MANIFEST_FILE)
        self.folder = folder
        self.manifest = manifest
        self.version = version.name
        self.segments = {
            kb: Segment(folder.segments / name) for kb, name in manifest.segments.items()
        }
        self._spans = {(span.kb, span.kind): span for span in manifest.spans}
        if damaged_files(version, {INDEX_FILE: manifest.index_file}, thorough=False):
            raise DamagedSpaceError(f"{version / INDEX_FILE}: missing or of the wrong size")
        # Opened now: once it is mapped, a build may publish and remove what it likes.
        backend = backend_of(manifest.index, manifest.index_settings)
        self.index: VectorIndex = backend.load(version / INDEX_FILE)

    def kbs(self, wanted: Sequence[str] = ()) -> tuple[str, ...]:
        """The wanted KBs, or all, in the order of the space."""
        for kb in wanted:
            if kb not in self.segments:
                raise UnknownNameError(
                    f"KB in space {self.folder.name!r}",
                    kb,
                    self.segments,
                    hint=f"`{build_command(self.folder.name)}` puts every KB of the store into it.",
                )
        return tuple(kb for kb in self.segments if not wanted or kb in wanted)

    def has_rows(self, kind: RowKind) -> bool:
        """Whether entities own vectors of this kind."""
        return any(span.kind == kind for span in self.manifest.spans)

    def nearest(
        self, queries: FloatArray, kb: str, kind: RowKind, k: int
    ) -> tuple[FloatArray, IntArray]:
        """The nearest rows of one KB and kind: products and row numbers within the segment."""
        span = self._spans[kb, kind]
        scores, rows = self.index.search(queries, k, [RowRange(span.start, span.stop)])
        return scores, np.where(rows >= 0, rows - span.start, -1)
