"""The files of a folder or of a zip archive, read alike; nothing is ever unpacked to a disk."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import IO, BinaryIO, cast

from kglink.errors import SourceError
from kglink.sources import Source, SourceHead, SourceLimits
from kglink.sources.compression import ZIP_MAGIC

_READABLE = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 0x1
#: What `zipfile` raises for archives that are damaged or made to do damage.
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError),
    *(ValueError, OverflowError, NotImplementedError),
)
_DRIVE = re.compile(r"[A-Za-z]:")
_LOCAL_HEADER = re.compile(rb"PK\x03\x04.{22}(..)(?:..)", re.DOTALL)


@contextmanager
def opened_files(source: Source) -> Iterator[dict[str, Source]]:
    """The files of a folder or of a zip archive by their relative names."""
    if source.is_folder:
        yield {file.name: file for file in source.files()}
        return
    if not source.head.head.startswith(ZIP_MAGIC):
        raise SourceError(
            f"{source.label} is neither a zip archive nor a folder",
            hint="Name the archive as it was downloaded, or the folder that it unpacks to.",
        )
    with source.open_seekable() as raw:
        with _naming_damage(source.label):
            archive = zipfile.ZipFile(raw)
        with archive:
            yield dict(_members(source, archive))


def archive_names(head: SourceHead) -> list[str]:
    """The names of the files in a folder or zip archive, as far as they can be known."""
    try:
        if head.path is not None and not head.head:
            return [path.name for path in head.path.iterdir()]
        if not head.head.startswith(ZIP_MAGIC):
            return []
        if head.path is not None:
            with zipfile.ZipFile(head.path) as archive:
                return archive.namelist()
    except _BROKEN:
        pass  # its beginning may still say what it is
    sizes = (
        (found.end(), int.from_bytes(found[1], "little"))
        for found in _LOCAL_HEADER.finditer(head.head)
    )
    return [head.head[at : at + size].decode("utf-8", errors="replace") for at, size in sizes]


def _members(source: Source, archive: zipfile.ZipFile) -> Iterator[tuple[str, Source]]:
    for info in archive.infolist():
        name = info.filename
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or "\\" in name or _DRIVE.match(name):
            raise SourceError(
                f"{source.label} holds a path that leads out of it: {name!r}",
                hint="Such an archive is made to write over other files; do not unpack it.",
            )
        # Not `is_dir`, which fails for an empty name.
        if (
            not name
            or name.endswith("/")
            or any(part.startswith((".", "__MACOSX")) for part in parts)
        ):
            continue
        opener = partial(_opened, source, archive, info)
        yield name, Source(name, size=info.file_size, opener=opener, limits=source.limits)


def _opened(source: Source, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BinaryIO:
    label = f"{info.filename} in {source.label}"
    if info.flag_bits & _ENCRYPTED or info.compress_type not in _READABLE:
        how = "encrypted" if info.flag_bits & _ENCRYPTED else "packed in an unusual way"
        raise SourceError(f"{label} is {how}", hint="Unpack the archive and name the folder.")
    with _naming_damage(label):
        stream = archive.open(info)
    return cast("BinaryIO", _Member(stream, label, info.compress_size, source.limits))


class _Member:
    """A file in an archive: whatever is wrong with it is said in our words."""

    def __init__(self, stream: IO[bytes], label: str, packed: int, limits: SourceLimits) -> None:
        self._stream = stream
        self._label = label
        self._packed = packed
        self._limits = limits
        self._place = self._lines = 0

    def seek(self, place: int) -> int:
        """Go to a place counted from the start."""
        if place != self._place:
            with _naming_damage(self._label):
                self._place = self._stream.seek(place)
        return self._place

    def read(self, size: int) -> bytes:
        """The next bytes; fewer than ``size`` at the end alone."""
        with _naming_damage(self._label):
            data = self._stream.read(size)
        self._place += len(data)
        self._lines += data.count(b"\n")
        self._limits.check_growth(self._label, self._packed, self._place, lines=self._lines)
        return data

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


@contextmanager
def _naming_damage(label: str) -> Iterator[None]:
    """Say in our words that an archive, or a file in it, is damaged."""
    try:
        yield
    except _BROKEN as error:
        raise SourceError(
            f"{label} is damaged: {str(error) or type(error).__name__}",
            hint="Copy or download the archive again; unzip -t FILE checks it.",
        ) from error
