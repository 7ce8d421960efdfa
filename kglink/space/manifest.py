"""What a space is made of, written beside it: format, model, KBs, rows, checksums, versions."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kglink.errors import DamagedSpaceError, SpaceError

FORMAT = 1
Part = TypeVar("Part", bound=BaseModel)
RowKind = Literal["text", "alias"]
ROW_KINDS: tuple[RowKind, ...] = ("text", "alias")
_LIBRARIES = ("kglink", "torch", "transformers", "faiss-cpu", "numpy", "scipy")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelInfo(_Part):
    """The encoder that made the vectors."""

    name: str
    fingerprint: str
    dim: int
    path: str = ""
    """Where it is found again: a name, or a folder, from the workspace if it lies in there."""


class FileInfo(_Part):
    """A file's size and BLAKE2b digest."""

    bytes: int
    blake2b: str


class SegmentInfo(_Part):
    """One KB's share of a space: an immutable folder of names and vectors."""

    format: int = FORMAT
    kb: str
    revision: int
    entities: int
    alias_rows: int
    rows: tuple[RowKind, ...]
    model: ModelInfo
    description_chars: int
    truncated_texts: int
    reused_rows: int
    licence: str = ""
    files: dict[str, FileInfo]


class RowSpan(_Part):
    """Which rows of the joint index hold which vectors of which KB."""

    kb: str
    kind: RowKind
    start: int
    stop: int


class SpaceManifest(_Part):
    """One published version of a space."""

    format: int = FORMAT
    name: str
    created: str
    model: ModelInfo
    segments: dict[str, str]
    """KB name -> segment folder, in KB order."""
    revisions: dict[str, int]
    spans: tuple[RowSpan, ...]
    index: str
    index_settings: dict[str, str | int | float | bool]
    index_file: FileInfo
    settings: dict[str, Any]
    libraries: dict[str, str]

    @property
    def kbs(self) -> tuple[str, ...]:
        """The KBs of this space, in the order that decides ties."""
        return tuple(self.segments)


def library_versions() -> dict[str, str]:
    """The versions of the libraries that shape an artifact."""
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def file_info(path: Path) -> FileInfo:
    """Measure a file."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
    return FileInfo(bytes=path.stat().st_size, blake2b=digest.hexdigest())


def damaged_files(folder: Path, files: dict[str, FileInfo], *, thorough: bool) -> list[str]:
    """The files that are missing or not as they were written; digests only if ``thorough``."""
    bad = []
    for name, info in files.items():
        path = folder / name
        if (
            not path.is_file()
            or path.stat().st_size != info.bytes
            or (thorough and file_info(path) != info)
        ):
            bad.append(str(path))
    return bad


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that a reader sees the old or the new content, whatever happens."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(path)
    _sync_folder(path.parent)


def read_part(kind: type[Part], path: Path) -> Part:
    """Read a manifest, or say what is wrong with it."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DamagedSpaceError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise DamagedSpaceError(f"{path}: not JSON ({error})") from error
    if isinstance(raw, dict) and isinstance(raw.get("format"), int) and raw["format"] > FORMAT:
        raise SpaceError(
            f"{path}: written by a newer kglink (format {raw['format']}, this one reads {FORMAT})",
            hint="Upgrade kglink, or rebuild the space with `kglink build --fresh`.",
        )
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DamagedSpaceError(f"{path}: {where}: {first['msg']}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
