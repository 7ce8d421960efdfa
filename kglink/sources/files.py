"""What a source asks of the file system; pipes and standard input, copied within bounds."""

from __future__ import annotations

import difflib
import errno
import io
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, BinaryIO

from kglink.errors import SourceError
from kglink.sources.compression import MAGIC_BYTES, ZIP_MAGIC, find_compression
from kglink.sources.encoding import check_text, marked_encoding
from kglink.sources.values import SourceLimits

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Files up to this size are fingerprinted whole, larger ones by as many bytes spread over them.
FINGERPRINT_BYTES = 64 * 2**20
_BLOCK = 2**20


class RawFile(io.RawIOBase):
    """A file from its start on a position of its own, so that several can share one handle.

    Those that share it share ``lock`` as well: a reader of archives reads in a thread of its own.
    """

    def __init__(
        self, file: BinaryIO, name: str, *, owned: bool, lock: Lock, size: int = 0
    ) -> None:
        self._file = file
        self._name = name
        self._owned = owned
        self._lock = lock
        self._size = size
        self.position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill ``buffer`` from `position` on; 0 at the end."""
        view = memoryview(buffer).cast("B")
        try:
            with self._lock:
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
        with self._lock:
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
    try:
        names = os.listdir(path.parent)  # noqa: PTH208 - names only, without a Path for each
    except OSError:
        return f"There is no folder {path.parent} either."
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"Did you mean {path.parent / near[0]}?" if near else ""


def visible_files(folder: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    """Relative names and paths of the files below a folder, hidden ones left out."""
    for path in folder.rglob(pattern):
        relative = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            yield relative.as_posix(), path


def sampled_ranges(size: int) -> Iterator[tuple[int, int]]:
    """Starts and lengths of the bytes that stand for a file of ``size`` bytes."""
    if size <= FINGERPRINT_BYTES:
        for start in range(0, size, _BLOCK):
            yield start, min(_BLOCK, size - start)
        return
    blocks = FINGERPRINT_BYTES // _BLOCK
    for block in range(blocks):
        yield block * (size - _BLOCK) // (blocks - 1), _BLOCK


_IN_MEMORY = 16 * 2**20
_PIECE = 2**20


def open_stream(path: Path, mode: int, pipe_seconds: float) -> BinaryIO:
    """Open what is neither a file nor a folder: a pipe that somebody writes to, nothing else."""
    if not stat.S_ISFIFO(mode):
        kind = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a socket"
        raise SourceError(
            f"{path} is {kind}, not a file",
            hint="Name a file or a folder, or pipe the data in: ... | kglink ... -",
        )
    with ThreadPoolExecutor(1) as elsewhere:
        opening = elsewhere.submit(path.open, "rb")  # waits until somebody opens the other end
        try:
            return opening.result(timeout=pipe_seconds)
        except TimeoutError as error:
            raise SourceError(
                f"{path} is a pipe that no program writes to (waited {pipe_seconds:g} seconds)",
                hint="Start the program that writes to it first.",
            ) from error
        finally:
            while not opening.done():  # nobody came: open the other end, so that the wait ends
                with suppress(OSError):
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                time.sleep(0.01)
                opening.add_done_callback(lambda done: done.result().close())


def spooled(stream: BinaryIO, name: str, limits: SourceLimits, folder: Path | None) -> IO[bytes]:
    """A temporary file with everything that ``stream`` gives."""
    with ExitStack() as undo:
        try:
            spool = undo.enter_context(
                tempfile.SpooledTemporaryFile(
                    max_size=_IN_MEMORY, dir=str(folder) if folder else None
                )
            )
            _copy(stream, spool, name, limits)
        except OSError as error:
            raise SourceError(
                f"cannot keep a copy of {name}: {error.strerror or error}",
                hint="It goes to the folder for temporary files; TMPDIR names another one.",
            ) from error
        undo.pop_all()
    return spool


def _copy(stream: BinaryIO, spool: IO[bytes], name: str, limits: SourceLimits) -> None:
    """Copy a stream; one that no reader would take is refused after its first bytes."""
    copied = 0
    while data := stream.read(_PIECE):
        if not copied and not data.startswith(ZIP_MAGIC):
            compression = find_compression(name, data[:MAGIC_BYTES])
            if not (compression or limits.encoding or marked_encoding(data)):
                check_text(name, data)
        copied += len(data)
        if copied > limits.max_spool_bytes:
            raise SourceError(
                f"{name} gives more than {limits.max_spool_bytes:,} bytes",
                hint="If it is what you expect, raise ingest.max_stdin_gb or name a file.",
            )
        spool.write(data)
