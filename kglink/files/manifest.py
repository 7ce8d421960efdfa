"""Manifests: small JSON files that say of what an artifact consists, checked when they are read."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kglink.errors import DamagedFileError, NewerFileError
from kglink.files.atomic import write_atomically
from kglink.files.digest import file_digest

ManifestType = TypeVar("ManifestType", bound=BaseModel)
_LIBRARIES = ("kglink", "torch", "transformers", "faiss-cpu", "numpy", "scipy")
#: Manifests list tens of files; nothing that is larger than this is one.
_LARGEST = 64 << 20
#: Beside a manifest: when the files that it names were last written before they were checked.
CHECKED_FILE = "checked.json"


class ManifestPart(BaseModel):
    """A frozen value of a manifest that has the fields that it declares, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class FileInfo(ManifestPart):
    """A file's size and BLAKE2b digest."""

    bytes: int
    blake2b: str


def file_info(path: Path) -> FileInfo:
    """Measure a file."""
    return FileInfo(bytes=path.stat().st_size, blake2b=file_digest(path))


def files_in(folder: Path) -> dict[str, FileInfo]:
    """Measure the files of a folder, by their names."""
    return {path.name: file_info(path) for path in sorted(folder.iterdir())}


def note_checked(folder: Path, files: Mapping[str, FileInfo]) -> None:
    """Keep when files were last written, now that they are known to be right."""
    times = {name: _times((folder / name).stat()) for name in files}
    write_atomically(folder / CHECKED_FILE, json.dumps(times))


def damaged_files(
    folder: Path, files: Mapping[str, FileInfo], *, thorough: bool = False
) -> list[Path]:
    """The files that are missing or not as they were written.

    A file is read to its end and its digest compared where it was touched since the last check,
    or if ``thorough``. What is right is noted, and what is not is forgotten, for the next check.
    """
    known = _noted(folder)
    bad, is_news = [], False
    for name, info in files.items():
        path = folder / name
        try:
            stat = path.stat()
            is_known = known.get(name) == _times(stat) and not thorough
            is_right = stat.st_size == info.bytes and (
                is_known or file_digest(path) == info.blake2b
            )
        except OSError:
            is_right = False
        if not is_right:
            bad.append(path)
            is_news |= known.pop(name, None) is not None
        elif not is_known:
            is_news |= known.get(name) != _times(stat)
            known[name] = _times(stat)
    if is_news:
        with contextlib.suppress(OSError):  # read-only: the files are read again the next time
            write_atomically(folder / CHECKED_FILE, json.dumps(known))
    return bad


def are_known(folder: Path, files: Mapping[str, FileInfo]) -> bool:
    """Whether nobody has touched the files since they were found right."""
    known = _noted(folder)
    try:
        return all(known.get(name) == _times((folder / name).stat()) for name in files)
    except OSError:
        return False


def forget_checked(folder: Path) -> None:
    """Let the next reader check all files again."""
    with contextlib.suppress(OSError):
        (folder / CHECKED_FILE).unlink()


@contextlib.contextmanager
def still_known(folders: Iterable[Path]) -> Iterator[None]:
    """Keep what is known of files while other links to them go, which changes their times."""
    known = {}
    for folder in folders:
        noted = _noted(folder)
        with contextlib.suppress(OSError):  # of a folder that loses files nothing is kept
            times = {name: _times((folder / name).stat()) for name in noted}
            known[folder] = {name: one for name, one in times.items() if one == noted[name]}
    yield
    for folder, before in known.items():
        noted = _noted(folder)
        with contextlib.suppress(OSError):  # as where they cannot be noted after a check
            for name, one in before.items():
                now = _times((folder / name).stat())
                if noted.get(name) == one and now[0] == one[0]:
                    noted[name] = now
            if noted != before:
                write_atomically(folder / CHECKED_FILE, json.dumps(noted))


def check_files(folder: Path, files: Mapping[str, FileInfo], *, thorough: bool = False) -> None:
    """Raise an error that names the first of `damaged_files`."""
    for path in damaged_files(folder, files, thorough=thorough):
        if path.is_file() and path.stat().st_size == files[str(path.relative_to(folder))].bytes:
            raise DamagedFileError(f"{path}: its content is not what was written")
        raise DamagedFileError(f"{path}: missing or of the wrong size")


def _noted(folder: Path) -> dict[str, list[int]]:
    try:
        found = read_json(folder / CHECKED_FILE)
    except DamagedFileError:  # nothing is known: all files are read
        return {}
    return found if isinstance(found, dict) else {}


def _times(stat: os.stat_result) -> list[int]:
    return [stat.st_mtime_ns, stat.st_ctime_ns]


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


def now() -> str:
    """The time in UTC, to the second, as ISO text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def library_versions(names: Iterable[str] = _LIBRARIES) -> dict[str, str]:
    """The versions of the libraries that shape an artifact."""
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions
