"""Compressed streams: known by their first bytes, decompressed in bounded pieces.

One loop for all kinds says where a stream breaks, keeps the pieces small whatever a file expands
to, and counts what the guard against bombs needs; the readers of the standard library do not.
"""

from __future__ import annotations

import lzma
import re
import shlex
import sys
import zlib
from bz2 import BZ2Decompressor
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from kglink.errors import SourceError
from kglink.sources.files import Unpacked

if sys.version_info >= (3, 14):
    from compression import zstd as zstd  # noqa: PLC0414 - others import it from here
else:
    from backports import zstd as zstd  # noqa: PLC0414 - others import it from here

if TYPE_CHECKING:
    from kglink.sources.values import SourceLimits

#: Bytes of a signature that tell the kinds apart.
MAGIC_BYTES = 16
#: Small, so that progress, which counts what is read, is not far ahead of what is unpacked.
_READ = 2**14
_PIECE = 2**18
#: What an xz stream may want of memory: its header says how much, up to 4 GiB; xz -9 writes 65 MiB.
_XZ_MEMORY = 2**28
#: The window of a zstd stream, as the library bounds it.
_ZSTD_MEMORY = 2**27
#: What the libraries raise, and what they say where memory is not enough.
_DAMAGE = (lzma.LZMAError, zlib.error, zstd.ZstdError, OSError, ValueError)
_IS_LIMITED = "Memory usage limit", "requires too much memory"


class _Decoder(Protocol):
    """One compressed stream; `bz2.BZ2Decompressor` is the model."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """`zlib` in the shape of `_Decoder`; it checks gzip's header and checksum itself."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail and len(piece) < max_length
        return piece


def _xz() -> _Decoder:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


class Compression(NamedTuple):
    """A kind of compression that is read on the fly."""

    name: str
    magic: re.Pattern[bytes]
    suffixes: tuple[str, ...]
    decoder: Callable[[], _Decoder] | None
    """None for an archive, which is more than a stream."""


KINDS = (
    Compression("gzip", re.compile(rb"\x1f\x8b"), (".gz", ".gzip", ".bgz"), _Gzip),
    Compression(
        "bzip2",
        re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
        (".bz2", ".bzip2"),
        BZ2Decompressor,
    ),
    Compression(
        "zstd",
        re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
        (".zst", ".zstd"),
        zstd.ZstdDecompressor,
    ),
    Compression("xz", re.compile(rb"\xfd7zXZ\x00"), (".xz",), _xz),
    Compression("7z", re.compile(rb"7z\xbc\xaf\x27\x1c"), (".7z",), None),
)
#: The first bytes of a zip archive, which some adapters read and no line reader does.
ZIP_MAGIC = b"PK\x03\x04"
#: How a Parquet file begins.
PARQUET_MAGIC = b"PAR1"
#: How Office files of before 2007 begin, and those with a password.
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".ods")
_SAVE_AS_CSV = (
    "`kglink add-kb` (by --adapter xlsx) and `kglink resolve` read .xlsx; else save its sheet as "
    "CSV in UTF-8."
)
#: Kinds of archives that are not read: name, signature, and the command that unpacks one.
_FOREIGN = (
    ("zip", ZIP_MAGIC, "unzip -p"),
    ("7z", b"7z\xbc\xaf\x27\x1c", "7z x -so"),  # in another packed file
    ("lz4", b"\x04\x22\x4d\x18", "lz4 -dc"),
)


def find_compression(name: str, magic: bytes, file: str = "") -> Compression | None:
    """The kind of compression that ``magic``, a file's first bytes, is the signature of."""
    if kind := next((kind for kind in KINDS if kind.magic.match(magic)), None):
        return kind
    refuse_archive(name, magic, file)
    return None


def refuse_archive(name: str, magic: bytes, file: str = "") -> None:
    """Refuse a file with the signature of an archive that is not read; commands name ``file``."""
    if magic.startswith(ZIP_MAGIC) and name.lower().endswith(_WORKBOOKS):
        raise SourceError(f"{name} is a workbook", hint=_SAVE_AS_CSV)
    if magic.startswith(_OLD_OFFICE):
        raise SourceError(
            f"{name} is an Office file of before 2007, or one with a password",
            hint="Save it as .xlsx or .docx, without a password.",
        )
    for packer, signature, command in _FOREIGN:
        if magic.startswith(signature):
            raise SourceError(
                f"{name} is packed with {packer}, which kglink does not read",
                hint="Unpack it first, or pipe it in: "
                f"{command} {shlex.quote(file or name)} | kglink ... -",
            )


def unpacked(raw: BinaryIO, kind: Compression, *, name: str, limits: SourceLimits) -> Unpacked:
    """The unpacked bytes of ``raw``, which `find_compression` says to be of that kind."""
    if kind.decoder is not None:
        return Decompressed(raw, kind.name, kind.decoder, name=name, limits=limits)
    try:
        from kglink.sources.seven_zip import SevenZip  # needs py7zr, an extra
    except ImportError as error:
        raise SourceError(
            f"{name} is a .7z archive, and py7zr, which reads them, is not installed",
            hint=f"pip install 'kglink[7z]', or pipe it in: 7z x -so {shlex.quote(name)} | "
            "kglink ... -",
        ) from error
    return SevenZip(raw, kind.name, name=name, limits=limits)


def without_suffix(name: str, compression: Compression | None) -> str:
    """``entities.jsonl`` for an ``entities.jsonl.gz`` that really is gzip."""
    for suffix in compression.suffixes if compression else ():
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name


class Decompressed(Unpacked):
    """The decompressed bytes of a stream, or of several behind each other."""

    def __init__(
        self,
        raw: BinaryIO,
        kind: str,
        decoder: Callable[[], _Decoder],
        *,
        name: str,
        limits: SourceLimits,
    ) -> None:
        super().__init__(raw, kind, name=name, limits=limits)
        self._decoder = decoder

    def _unpack(self) -> Generator[bytes, None, None]:
        data = self._take()
        while data:  # one round for each stream of a file of several
            decoder = self._decoder()
            while not decoder.eof:
                if decoder.needs_input and not data:
                    data = self._take()
                    if not data:
                        raise SourceError(
                            f"{self._name} is cut short: its {self._kind} stream ends in the "
                            f"middle ({self._place()})",
                            hint=self._copy_again(),
                        )
                try:
                    piece = decoder.decompress(data, _PIECE)
                except _DAMAGE as error:
                    is_limited = any(words in str(error) for words in _IS_LIMITED)
                    raise (self._wants_memory() if is_limited else self._damaged(error)) from error
                data = b""
                if piece:
                    yield self._counted(piece)
            data = decoder.unused_data.lstrip(b"\0")  # some tapes and tools pad with zeros
            while not data and (more := self._take()):
                data = more.lstrip(b"\0")

    def _wants_memory(self) -> SourceError:
        most, command = _XZ_MEMORY, "xz -dc"
        if self._kind == "zstd":
            most, command = _ZSTD_MEMORY, "zstd -dc --long=31"
        return SourceError(
            f"{self._name} needs over {most >> 20} MiB of memory to be unpacked",
            hint=f"Pipe it in: {command} {shlex.quote(self._name)} | kglink ... -",
        )

    def _take(self) -> bytes:
        data = self._raw.read(_READ)
        self._read += len(data)
        return data
