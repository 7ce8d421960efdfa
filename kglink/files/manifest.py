"""Manifests: small JSON files that say of what an artifact consists, checked when they are read."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kglink.errors import DamagedFileError, NewerFileError
from kglink.files.digest import file_digest

ManifestType = TypeVar("ManifestType", bound=BaseModel)
_LIBRARIES = ("kglink", "torch", "transformers", "faiss-cpu", "numpy", "scipy")
#: Manifests list tens of files; nothing that is larger than this is one.
_LARGEST = 64 << 20


class ManifestPart(BaseModel):
    """A frozen value of a manifest that has the fields that it declares, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FileInfo(ManifestPart):
    """A file's size and BLAKE2b digest."""

    bytes: int
    blake2b: str


def file_info(path: Path) -> FileInfo:
    """Measure a file."""
    return FileInfo(bytes=path.stat().st_size, blake2b=file_digest(path))


def damaged_files(folder: Path, files: Mapping[str, FileInfo], *, thorough: bool) -> list[Path]:
    """The files that are missing or not as they were written; digests only if ``thorough``."""
    return [folder / name for name, info in files.items() if _is_bad(folder / name, info, thorough)]


def _is_bad(path: Path, info: FileInfo, thorough: bool) -> bool:
    if not path.is_file() or path.stat().st_size != info.bytes:
        return True
    return thorough and file_digest(path) != info.blake2b


def read_json(path: Path) -> Any:
    """Read a JSON file that kglink wrote; what is not JSON is damaged."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise DamagedFileError(f"{path}: larger than any manifest")
        return json.loads(raw)
    except OSError as error:
        raise DamagedFileError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path}: not JSON ({error})") from error


def read_manifest(kind: type[ManifestType], path: Path, *, newest: int) -> ManifestType:
    """Read a manifest of format ``newest`` or older, or say what is wrong with it."""
    raw = read_json(path)
    found = raw.get("format") if isinstance(raw, dict) else None
    if isinstance(found, int) and found > newest:
        raise NewerFileError(
            f"{path}: written by a newer kglink (format {found}, this one reads {newest})"
        )
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DamagedFileError(f"{path}: {where}: {first['msg']}") from error


def library_versions(names: Iterable[str] = _LIBRARIES) -> dict[str, str]:
    """The versions of the libraries that shape an artifact."""
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions
