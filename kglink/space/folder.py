"""The folder of a space: its versions and segments, which version is published, who may write."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TypeVar

from kglink.errors import DamagedSpaceError, SpaceBusyError, SpaceError, naming_missing_right
from kglink.files.atomic import atomic_folder, file_lock, sweep_drafts, write_atomically
from kglink.files.manifest import FileInfo, damaged_files, still_known
from kglink.models.source import ModelInfo
from kglink.space.layers import folders_of, open_segment
from kglink.space.manifest import SegmentInfo, SpaceManifest, read_part
from kglink.space.segment import INFO_FILE

CURRENT_FILE = "CURRENT"
MANIFEST_FILE = "manifest.json"
INDEX_FILE = "index.faiss"
_DEFAULT = "default"
_VERSION = re.compile(r"[0-9]{1,12}", re.ASCII)
_LONGEST_POINTER = 64
Found = TypeVar("Found")


class SpaceFolder:
    """Where the versions and segments of one space lie."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.path = root / name
        self.segments = self.path / "segments"
        self.versions = self.path / "versions"
        self.detector = self.path / "detector"
        """Where the space's trained detector lies, if it has one."""
        self.reranker = self.path / "reranker"
        """Where its trained reranker lies, if it has one."""
        self.student = self.path / "student"
        """Where the static model lies that reads mentions in place of its model, if one does."""
        self.memory = self.path / "memory"
        """Where the vectors of remembered surfaces lie, if there are any."""

    @property
    def current(self) -> Path | None:
        """The folder of the published version, None where nothing was published yet."""
        # Read once: a build may replace the pointer at any moment.
        name = self.pointer
        if name is None:
            return None
        version = self.versions / name
        if not _VERSION.fullmatch(name) or not version.is_dir():
            raise DamagedSpaceError(f"{self.path / CURRENT_FILE}: names no version")
        return version

    @property
    def pointer(self) -> str | None:
        """What names the published version, None where nothing was published yet."""
        path = self.path / CURRENT_FILE
        if not os.path.lexists(path):
            return None
        try:
            with path.open("rb") as stream:
                return stream.read(_LONGEST_POINTER).decode("ascii", "replace").strip()
        except OSError as error:
            raise DamagedSpaceError(f"{path}: {error.strerror}") from error

    def published(self) -> tuple[Path, SpaceManifest]:
        """The folder and the manifest of one version, the published one; an error without any."""

        def read() -> tuple[Path, SpaceManifest] | None:
            folder = self.current
            return (folder, read_part(SpaceManifest, folder / MANIFEST_FILE)) if folder else None

        if found := self.reading(read):
            return found
        raise SpaceError(
            f"space {self.name!r} is not built yet", hint=f"Run `{build_command(self.name)}`."
        )

    def published_manifest(self) -> SpaceManifest:
        """The manifest of the published version; an error where there is none."""
        return self.published()[1]

    def manifest(self) -> SpaceManifest | None:
        """The manifest of the published version, None where there is none."""
        return None if self.pointer is None else self.published_manifest()

    def usable_manifest(self) -> SpaceManifest | None:
        """The manifest of the published version, None where it cannot be read as well."""
        try:
            return self.manifest()
        except SpaceError:
            return None

    def model_published(self) -> str:
        """The fingerprint of the published version's model; empty where none can be read."""
        manifest = self.usable_manifest()
        return manifest.model.fingerprint if manifest else ""

    def model(self) -> ModelInfo | None:
        """The model of the published version; where that is damaged, of its newest segment."""
        if not os.path.lexists(self.path / CURRENT_FILE):
            return None
        if manifest := self.usable_manifest():
            return manifest.model
        found = sorted(self.segments.glob(f"*/{INFO_FILE}"), key=lambda path: path.stat().st_mtime)
        for path in reversed(found):
            with contextlib.suppress(SpaceError):
                return read_part(SegmentInfo, path).model
        return None

    def reading(self, read: Callable[[], Found]) -> Found:
        """What ``read`` finds; it reads again where another version was published meanwhile."""
        while True:
            before = self.pointer
            try:
                return read()
            except DamagedSpaceError:
                if self.pointer == before:
                    raise

    def has_whole_index(self) -> bool:
        """Whether the published index is the file that was written."""
        version, manifest = self.published()
        return not damaged_files(version, index_files(manifest))

    def damage(self) -> list[str]:
        """Every file of the published version whose content is not what was written."""
        try:
            before = self.pointer
            if before is None:
                return []
            folder, manifest = self.published()
        except SpaceError as error:
            return [error.message]
        bad = damaged_files(folder, index_files(manifest), thorough=True)
        problems = [str(path) for path in bad]
        for name in manifest.segments.values():
            try:
                for part in folders_of(self.segments / name):
                    files = read_part(SegmentInfo, part / INFO_FILE).files
                    problems += [str(path) for path in damaged_files(part, files, thorough=True)]
                if not problems:
                    open_segment(self.segments / name)
            except SpaceError as error:
                problems.append(error.message)
        # What a build has removed meanwhile was not damaged.
        return problems if not problems or self.pointer == before else self.damage()

    def unreadable(self) -> list[Path]:
        """The files and folders of the space, less drafts, that this user may not read."""
        if self.path.exists() and not os.access(self.path, os.R_OK | os.X_OK):
            return [self.path]
        found: list[Path] = []
        for folder, folders, files in os.walk(self.path):
            folders[:] = (name for name in folders if not name.startswith("."))
            names = sorted([*folders, *(name for name in files if not name.startswith("."))])
            found += [path for name in names if not os.access(path := Path(folder, name), os.R_OK)]
        return found

    @contextlib.contextmanager
    def writing(self, replaces: Collection[str] = ()) -> Iterator[None]:
        """Be the only writer of the space; what cannot be written becomes a `SpaceError`.

        ``replaces``: fingerprints of the models that the published version may have; none: any.
        """
        busy = SpaceBusyError(
            f"space {self.name!r} is being built by another process",
            hint="Wait until it is done, or use another space: `--space NAME`, or space.name.",
        )
        try:
            with naming_missing_right(f"space {self.name!r}", SpaceError):
                self.segments.mkdir(parents=True, exist_ok=True)
                self.versions.mkdir(parents=True, exist_ok=True)
                with file_lock(self.path / "lock", busy):
                    for folder in (self.path, self.segments, self.versions):
                        sweep_drafts(folder)
                    if replaces and self.model_published() not in ("", *replaces):
                        raise SpaceError(
                            f"space {self.name!r} got another model just before it was built",
                            hint="Run the same command again.",
                        )
                    yield
        except OSError as error:
            raise SpaceError(
                f"cannot write space {self.name!r}: {error.filename or self.path}: "
                f"{error.strerror or error}",
                hint="If the disk is full, free some of it; if something else lies there, move it "
                "away. Then run the same command again: it goes on where it stopped. The "
                "published version is as it was.",
            ) from error

    @contextlib.contextmanager
    def new_version(self) -> Iterator[Path]:
        """Give an empty folder that is published when the block ends without error.

        Then older versions are removed; open files of them stay readable.
        """
        names = [path.name for path in self.versions.iterdir()]
        made = [int(name) for name in names if _VERSION.fullmatch(name)]
        version = self.versions / f"{max(made, default=0) + 1:06d}"
        with atomic_folder(version) as draft:
            yield draft
        write_atomically(self.path / CURRENT_FILE, version.name + "\n")
        _remove_folders(self.versions, {version.name})

    def copy_segments(self, other: SpaceFolder) -> None:
        """Copy the published segments of another folder, as links to its files where it can be.

        Whoever calls this is `writing`.
        """
        for name in other.segment_folders(other.published_manifest()):
            if not (self.segments / name / INFO_FILE).is_file():
                with atomic_folder(self.segments / name) as draft:
                    shutil.copytree(
                        other.segments / name, draft,
                        copy_function=link_or_copy, dirs_exist_ok=True,
                    )  # fmt: skip

    def segment_folders(self, manifest: SpaceManifest) -> set[str]:
        """The folders of a version's segments, and of those that they stand on."""
        names = manifest.segments.values()
        return {path.name for name in names for path in folders_of(self.segments / name)}

    def drop_segments(self, keep: Collection[str]) -> None:
        """Remove all segments but those to keep; what readers have open stays readable."""
        kept = [path for path in self.segments.iterdir() if path.name in keep]
        with still_known(kept):
            _remove_folders(self.segments, keep)


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """The same file in another folder; a copy on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _remove_folders(root: Path, keep: Collection[str]) -> None:
    """Remove folders; what cannot be removed now is left to the next build."""
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink() and path.name not in keep:
            shutil.rmtree(path, ignore_errors=True)


def index_files(manifest: SpaceManifest) -> dict[str, FileInfo]:
    """The files of a version beside its manifest: the index, where there are vectors."""
    return {INDEX_FILE: manifest.index_file} if manifest.index_file else {}


def space_names(root: Path) -> list[str]:
    """The spaces under a folder that were published."""
    if not root.is_dir():
        return []
    return sorted(path.parent.name for path in root.glob(f"*/{CURRENT_FILE}"))


def build_command(space: str) -> str:
    """What a user types to build a space."""
    return "kglink build" if space == _DEFAULT else f"kglink build --space {space}"
