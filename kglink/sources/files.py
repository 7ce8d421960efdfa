"""What a source asks of the file system, and the streams that all readers share."""

from __future__ import annotations

import difflib
import errno
import io
import os
import shlex
import stat
import time
from abc import abstractmethod
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from kglink.errors import SourceError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from kglink.sources.values import SourceLimits

#: Files up to this size are fingerprinted whole, larger ones by as many bytes spread over them.
FINGERPRINT_BYTES = 64 * 2**20
_BLOCK = 2**20
_SCHEMES = ("http", "https", "ftp", "s3", "gs", "hdfs")


class RawFile(io.RawIOBase):
    """A file from its start on a position of its own, so that several can share one handle."""

    def __init__(self, file: IO[bytes], name: str, *, owned: bool, size: int = 0) -> None:
        self._file = file
        self._name = name
        self._owned = owned
        self._size = size
        self.position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill ``buffer`` from `position` on; 0 at the end."""
        view = memoryview(buffer).cast("B")
        try:
            self._file.seek(self.position)
            data = self._file.read(len(view))
        except OSError as error:
            raise unreadable(self._name, error) from error
        if view and not data and self.position < self._size:
            raise SourceError(
                f"{self._name} became shorter while it was read: it had {self._size:,} bytes, "
                f"and ends before byte {self.position + 1:,}",
                hint="Run it again when nothing writes to the file.",
            )
        view[: len(data)] = data
        self.position += len(data)
        return len(data)

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a place counted from the start, from here or from the end."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.position}.get(whence)
        place = offset + (self._file.seek(0, os.SEEK_END) if base is None else base)
        if place < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self.position = place
        return place

    def close(self) -> None:
        """Close the handle too, unless it is shared."""
        if self._owned:
            self._file.close()
        super().close()


def unreadable(name: str, error: OSError | ValueError) -> SourceError:
    """The error of a path that the system will not read."""
    reason = getattr(error, "strerror", None) or str(error)
    return SourceError(f"cannot read {name}: {reason}", hint="Check the path and its permissions.")


def near_names(path: Path) -> str:
    """A hint that names what stands beside a missing path."""
    if str(path).partition(":/")[0] in _SCHEMES:
        return "kglink fetches nothing: download it, or pipe it (curl ADDRESS | kglink ... -)."
    try:
        names = os.listdir(path.parent)  # noqa: PTH208 - names only, without a Path for each
    except OSError:
        return f"There is no folder {path.parent} either."
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"Did you mean {path.parent / near[0]}?" if near else ""


def visible_files(folder: Path) -> Iterator[tuple[str, Path, int]]:
    """Relative names, paths and sizes of the files below a folder, hidden ones left out.

    What may not be read is one of them: who opens it is told why. A folder's name ends in ``/``.
    """
    closed: list[OSError] = []
    for parent, folders, names in os.walk(folder, onerror=closed.append):
        folders[:] = (name for name in folders if not name.startswith("."))
        for path in (Path(parent, name) for name in names if not name.startswith(".")):
            name = path.relative_to(folder).as_posix()
            try:
                status = path.stat()
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # else not there
                    yield name, path, 1  # not empty, for all that is known
            else:
                if stat.S_ISREG(status.st_mode):
                    yield name, path, status.st_size
    for path in (Path(error.filename) for error in closed):
        yield f"{path.relative_to(folder).as_posix()}/", path, 1


def sampled_ranges(size: int) -> Iterator[tuple[int, int]]:
    """Starts and lengths of the bytes that stand for a file of ``size`` bytes."""
    if size <= FINGERPRINT_BYTES:
        for start in range(0, size, _BLOCK):
            yield start, min(_BLOCK, size - start)
        return
    blocks = FINGERPRINT_BYTES // _BLOCK
    for block in range(blocks):
        yield block * (size - _BLOCK) // (blocks - 1), _BLOCK


class PieceStream(io.RawIOBase):
    """The bytes that come in pieces of any size, made of another stream."""

    def __init__(self, pieces: Generator[bytes, None, None], made_of: BinaryIO) -> None:
        self._pieces = pieces
        self._made_of = made_of
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill ``buffer`` with what comes next; 0 at the end."""
        if not self._left:
            self._left = memoryview(self._next())
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._left))
        target[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def close(self) -> None:
        """Close the other stream too."""
        if not self.closed:
            self._pieces.close()
            self._made_of.close()
        super().close()

    def _next(self) -> bytes:
        return next(self._pieces, b"")


class Unpacked(PieceStream):
    """The unpacked bytes of ``raw``, as a raw stream; ``kind`` is the name of the packer."""

    check_command = "{kind} -t {name}"

    def __init__(self, raw: BinaryIO, kind: str, *, name: str, limits: SourceLimits) -> None:
        super().__init__(self._unpack(), raw)
        self._raw = raw
        self._kind = kind
        self._name = name
        self._limits = limits
        self._read = self._written = self._lines = 0
        self._seconds = 0.0

    @abstractmethod
    def _unpack(self) -> Generator[bytes, None, None]:
        """The bytes in bounded pieces, each of them `_counted`."""

    def _next(self) -> bytes:
        started = time.thread_time()
        piece = super()._next()
        self._seconds += time.thread_time() - started
        return piece

    def _counted(self, piece: bytes) -> bytes:
        self._written += len(piece)
        self._lines += piece.count(b"\n")
        sizes = self._name, self._read, self._written, self._kind
        self._limits.check_growth(*sizes, lines=self._lines, seconds=self._seconds)
        return piece

    def _damaged(self, reason: object) -> SourceError:
        return SourceError(
            f"{self._name} is damaged: {reason} ({self._place()})", hint=self._copy_again()
        )

    def _copy_again(self) -> str:
        command = self.check_command.format(kind=self._kind, name=shlex.quote(self._name))
        return f"Copy or download it again; {command} checks it."

    def _place(self) -> str:
        return (
            f"in line {self._lines + 1:,}, after {self._written:,} unpacked bytes, "
            f"near byte {self._read:,} of the file"
        )
