"""Reads the one file of a .7z archive as a stream, with py7zr.

py7zr pushes what it unpacks into an object of ours, and readers pull. It runs in a thread, with a
bounded queue between: it unpacks ahead while the reader works, and waits when it is ahead enough.
Nothing of an archive is ever written to disk, whatever its members are called. Rare methods are
refused before they are begun: the decoder of PPMd ends the whole process on a damaged archive.
"""

from __future__ import annotations

import io
import lzma
import os
import shlex
import struct
import threading
import zlib
from collections.abc import Generator, Iterable
from pathlib import PurePosixPath, PureWindowsPath
from queue import Queue
from typing import BinaryIO, cast

from py7zr import Py7zIO, SevenZipFile, WriterFactory
from py7zr.archiveinfo import Folder, HeaderStreamsInfo
from py7zr.exceptions import ArchiveError, CrcError

from kglink.errors import SourceError
from kglink.sources.files import Unpacked

_PIECE = 2**18
_QUEUED = 8
#: py7zr unpacks all that one read gives it, at most 128 MB: the reads are kept so small that
#: a piece is about this large...
_BLOCK = 2**20
#: ...within these bounds.
_LEAST_READ, _MOST_READ = 2**10, 2**16
_MOST_NAMES = 5
#: Signature, version, checksum of what follows; place, size and checksum of the header.
_START = struct.Struct("<6s2sIQQI")
_START_CHECKED = 12
#: How a header begins that is packed itself.
_PACKED_HEADER = b"\x17"
#: The numbers of the methods that are read: stored, LZMA, LZMA2, Deflate, bzip2, and the filter
#: BCJ, which py7zr uses on whatever it packs...
_READ_METHODS = ("00", "030101", "21", "040108", "040202", "03030103")
#: ...and of some that are not.
_OTHER_METHODS = {"030401": "PPMd", "040109": "Deflate64", "04f71101": "zstd"}
_ENCRYPTION = "06f10701"
#: What py7zr ends with on a damaged archive: its own errors, those of the decoders, and beyond
#: them what Python says of values that make no sense.
_DAMAGE = (
    ArchiveError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    TypeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    zlib.error,
)


class _ClosedError(Exception):
    """The reader wants no more."""


class _Pipe(WriterFactory):
    """Takes what py7zr unpacks and gives it to the reader, a few pieces later at most."""

    def __init__(self, archive: _Archive) -> None:
        self._archive = archive
        self.pieces: Queue[tuple[bytes, int]] = Queue(_QUEUED)
        """Unpacked bytes, and how far in the archive they end; the last ones are empty."""
        self._closed = False
        self.error: BaseException | None = None

    def create(self, filename: str) -> Py7zIO:
        """The writer that py7zr is given for the file in the archive, of which there is one."""
        return _Member(self)

    def put(self, data: bytes | bytearray) -> None:
        """Wait for room and put ``data`` in."""
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            if self._closed:
                raise _ClosedError
            self.pieces.put((bytes(view[start : start + _PIECE]), self._archive.position))
        self._archive.portion_gave(len(data))

    def close(self) -> None:
        """Make room, so that who waits in `put` goes on, and finds the pipe closed."""
        self._closed = True
        while not self.pieces.empty():
            self.pieces.get()


class _Archive(io.RawIOBase):
    """The archive as py7zr sees it: what holds packed data is read in small portions."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._portion = 0
        self.position = 0
        """Where the last read of packed data ended."""

    def in_portions(self) -> None:
        """Begin with small portions: the header, which is read whole, is known."""
        self._portion = 2 * _LEAST_READ

    def portion_gave(self, length: int) -> None:
        """Take larger or smaller portions from now on, by what the last one grew to."""
        wanted = self._portion * _BLOCK // max(1, length)
        self._portion = max(_LEAST_READ, min(_MOST_READ, 2 * self._portion, wanted))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if not self._portion:
            return self._raw.read(size)
        data = self._raw.read(min(size, self._portion) if size >= 0 else self._portion)
        self.position = self._raw.tell()
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()


class _Member(Py7zIO):
    """The writer that py7zr is given for the file in the archive."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe
        self._size = 0

    def write(self, s: bytes | bytearray) -> int:
        self._pipe.put(s)
        self._size += len(s)
        return len(s)

    def read(self, size: int | None = None) -> bytes:
        raise io.UnsupportedOperation

    def seekable(self) -> bool:
        return False  # else py7zr goes back to the start at the end

    def seek(self, offset: int, whence: int = 0) -> int:
        raise io.UnsupportedOperation

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def size(self) -> int:
        return self._size


class SevenZip(Unpacked):
    """The unpacked bytes of the only file of an archive."""

    check_command = "7z t {name}"

    def _unpack(self) -> Generator[bytes, None, None]:
        source = _Archive(self._raw)
        try:
            self._check_start()
            archive = SevenZipFile(cast("BinaryIO", source))
            member = self._only_member(archive)
        except _DAMAGE as error:
            raise self._damaged(_told(error)) from error
        source.in_portions()
        pipe = _Pipe(source)
        thread = threading.Thread(
            target=_push, args=(archive, member, pipe), name="unpack .7z", daemon=True
        )
        thread.start()
        try:
            while (piece := pipe.pieces.get())[0]:
                self._read = piece[1]
                yield self._counted(piece[0])
        finally:
            pipe.close()
            thread.join()
        if isinstance(pipe.error, _DAMAGE):
            raise self._damaged(_told(pipe.error)) from pipe.error
        if pipe.error:
            raise pipe.error
        self._raw.seek(0, os.SEEK_END)  # the header lies there: all has been read

    def _only_member(self, archive: SevenZipFile) -> str:
        if (streams := archive.header.main_streams) is not None:
            self._check_methods(streams.unpackinfo.folders)
        # A symbolic link or a device is no file; neither is what an archive only names.
        names = [member.filename for member in archive.list() if member.is_file]
        if not names:
            raise SourceError(
                f"{self._name} is an archive without a file in it",
                hint=f"7z l {shlex.quote(self._name)} lists what it holds.",
            )
        if len(names) > 1:
            shown = ", ".join(map(repr, names[:_MOST_NAMES]))
            more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
            raise SourceError(
                f"{self._name} holds {len(names):,} files, and kglink reads archives of one: "
                f"{shown}{more}",
                hint="Pipe one in: "
                f"7z x -so -- {shlex.quote(self._name)} {shlex.quote(names[0])} | kglink ... -",
            )
        name = names[0]
        windows = PureWindowsPath(name)
        parts = {*PurePosixPath(name).parts, *windows.parts}
        if ".." in parts or name.startswith("/") or bool(windows.anchor):
            raise SourceError(
                f"{self._name} holds a file whose path leads out of the archive: {names[0]!r}",
                hint="No packer that is right writes such a path. If you trust the archive, pipe "
                f"it in: 7z x -so {shlex.quote(self._name)} | kglink ... -",
            )
        return names[0]

    def _check_start(self) -> None:
        """Refuse an archive that is shorter than it says, or whose header is not readable."""
        start = self._raw.read(_START.size)
        size = self._raw.seek(0, os.SEEK_END)
        end, place = _START.size, 0
        if len(start) == _START.size:
            _, _, checksum, place, length, _ = _START.unpack(start)
            if zlib.crc32(start[_START_CHECKED:]) != checksum:
                raise self._damaged("its start is not as it was written")
            end += place + length
        if size < end:
            raise SourceError(
                f"{self._name} is cut short: it has {size:,} bytes of {end:,}",
                hint=self._copy_again(),
            )
        self._raw.seek(_START.size + place)
        header = self._raw.read(length)
        if header.startswith(_PACKED_HEADER):
            packed = HeaderStreamsInfo.retrieve(io.BytesIO(header[len(_PACKED_HEADER) :]))
            self._check_methods(packed.unpackinfo.folders)
        self._raw.seek(0)

    def _check_methods(self, folders: Iterable[Folder]) -> None:
        methods = [coder["method"].hex() for folder in folders for coder in folder.coders]
        pipe_in = f"Pipe it in: 7z x -so {shlex.quote(self._name)} | kglink ... -"
        if _ENCRYPTION in methods:
            raise SourceError(
                f"{self._name} is encrypted, and kglink reads archives without a password",
                hint=f"{pipe_in}; 7z asks for the password.",
            )
        if others := [method for method in methods if method not in _READ_METHODS]:
            name = _OTHER_METHODS.get(others[0], others[0])
            raise SourceError(
                f"{self._name} is packed by the method {name}, which kglink does not read; it "
                "reads LZMA, LZMA2, Deflate and bzip2",
                hint=f"{pipe_in}.",
            )


def _push(archive: SevenZipFile, member: str, pipe: _Pipe) -> None:
    """Unpack ``member`` into ``pipe``; what a thread of its own does."""
    try:
        archive.extract(targets=[member], factory=pipe)
    except _ClosedError:
        pass
    except BaseException as error:  # noqa: BLE001 - the reader raises it
        pipe.error = error
    pipe.pieces.put((b"", 0))


def _told(error: BaseException) -> str:
    """One line of what py7zr or a decoder says."""
    if isinstance(error, CrcError):
        return "its checksum is not that of its content"
    lines = str(error).splitlines()
    if lines and isinstance(error, (ArchiveError, lzma.LZMAError)):
        return lines[0]
    return "what it says of itself makes no sense"
