"""Reads the one file of a .7z archive as a stream, with the decoders of py7zr.

Nothing of an archive is ever written to disk, whatever its members are called. Rare methods are
refused before they are begun: the decoder of PPMd ends the whole process on a damaged archive.
"""

from __future__ import annotations

import io
import lzma
import os
import shlex
import struct
import zlib
from collections.abc import Generator, Iterable
from pathlib import PurePosixPath, PureWindowsPath

from py7zr import SevenZipFile
from py7zr.archiveinfo import Folder, HeaderStreamsInfo
from py7zr.exceptions import ArchiveError, CrcError
from py7zr.py7zr import ArchiveFile

from kglink.errors import SourceError
from kglink.sources.files import Unpacked

_PIECE = 2**18
#: A decoder unpacks all that it is given: it gets so little at a time that it makes about this...
_BLOCK = 2**20
#: ...within these bounds, and keeps back what is more than this.
_LEAST_READ, _MOST_READ, _MOST_UNPACKED = 2**10, 2**16, 2**24
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
    *(ArchiveError, ArithmeticError, AssertionError, AttributeError, EOFError, LookupError),
    *(MemoryError, OSError, TypeError, ValueError, lzma.LZMAError, struct.error, zlib.error),
)


class SevenZip(Unpacked):
    """The unpacked bytes of the only file of an archive."""

    check_command = "7z t {name}"

    def _unpack(self) -> Generator[bytes, None, None]:
        try:
            self._check_start()
            archive = SevenZipFile(self._raw)
            member = self._only_member(archive)
            if (streams := archive.header.main_streams) and not member.emptystream:
                folder = streams.unpackinfo.folders.index(member.folder)
                start = archive.afterheader + streams.packinfo.packpos
                self._raw.seek(start + streams.packinfo.packpositions[folder])
                of_folder = [one for one in archive.files if one.folder is member.folder]
                before = of_folder[: [one.id for one in of_folder].index(member.id)]
                skipped = sum(one.uncompressed for one in before)  # links are packed too
                yield from self._content(member, streams.packinfo.packsizes[folder], skipped)
        except _DAMAGE as error:
            raise self._damaged(_reason(error)) from error
        self._read = self._raw.seek(0, os.SEEK_END)  # the header lies there: all has been read

    def _content(
        self, member: ArchiveFile, packed: int, skipped: int
    ) -> Generator[bytes, None, None]:
        """The bytes of ``member``, which stand behind others in what is packed with it."""
        decoder = member.folder.get_decompressor(packed)
        decoder.block_size = 2 * _LEAST_READ
        left, checksum = member.uncompressed, 0
        while left > 0:
            place = decoder.consumed
            data = decoder.decompress(self._raw, min(skipped + left, _MOST_UNPACKED))
            if not data and decoder.consumed == place:
                raise EOFError
            self._read = self._raw.tell()
            fitting = decoder.block_size * _BLOCK // max(1, len(data))
            fitting = min(_MOST_READ, 2 * decoder.block_size, fitting)
            decoder.block_size = max(_LEAST_READ, fitting)
            wanted = memoryview(data)[skipped : skipped + left]
            skipped = max(0, skipped - len(data))
            left -= len(wanted)
            checksum = zlib.crc32(wanted, checksum)
            for start in range(0, len(wanted), _PIECE):
                yield self._counted(bytes(wanted[start : start + _PIECE]))
            del data, wanted  # before there is more
        if member.crc32 not in (None, checksum):
            raise CrcError(checksum, member.crc32, member.filename)

    def _only_member(self, archive: SevenZipFile) -> ArchiveFile:
        if (streams := archive.header.main_streams) is not None:
            self._check_methods(streams.unpackinfo.folders)
        # A symbolic link or a device is no file; neither is what an archive only names.
        members = [member for member in archive.files if member.is_file]
        names = [member.filename for member in members]
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
        windows = PureWindowsPath(names[0])
        parts = {*PurePosixPath(names[0]).parts, *windows.parts}
        if ".." in parts or names[0].startswith("/") or bool(windows.anchor):
            raise SourceError(
                f"{self._name} holds a file whose path leads out of the archive: {names[0]!r}",
                hint="No packer that is right writes such a path. If you trust the archive, pipe "
                f"it in: 7z x -so {shlex.quote(self._name)} | kglink ... -",
            )
        return members[0]

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


def _reason(error: BaseException) -> str:
    """One line of what py7zr or a decoder says."""
    if isinstance(error, CrcError):
        return "its checksum is not that of its content"
    lines = str(error).splitlines()
    if lines and isinstance(error, (ArchiveError, lzma.LZMAError)):
        return lines[0]
    return "what it says of itself makes no sense"
