"""`Source`: one way to read a file, a folder or standard input."""

from __future__ import annotations

import io
import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import IO, BinaryIO, Self, cast

from kglink.errors import RecordError, SourceError, UsageError
from kglink.records import Spread
from kglink.sources.compression import (
    MAGIC_BYTES,
    ZIP_MAGIC,
    Compression,
    find_compression,
    unpacked,
    without_suffix,
)
from kglink.sources.encoding import as_utf8, check_text, checked_encoding, marked_encoding, not_utf8
from kglink.sources.files import RawFile, near_names, sampled_ranges, unreadable, visible_files
from kglink.sources.spool import open_stream, spooled
from kglink.sources.values import Line, Problems, SourceHead, SourceLimits, Step, text_too_long

STDIN = "-"
HEAD_BYTES = 2**16
_BUFFER = 2**20
#: An unpacked copy that is larger lies on the disk.
_IN_MEMORY = 2**24
_BOM = b"\xef\xbb\xbf"


class Source:
    """A file, a folder or standard input.

    Standard input (and a pipe, such as the shell's ``<(...)``) is copied to an unnamed temporary
    file when the source is opened: so it has a size and a fingerprint, can be read again, and an
    interrupted run can be resumed when the same bytes are piped in once more. A source is a
    context manager; closing it frees that copy.
    """

    def __init__(
        self,
        name: str,
        *,
        size: int = 0,
        opener: Callable[[], IO[bytes]] | None = None,
        shared: bool = False,
        path: Path | None = None,
        limits: SourceLimits | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.limits = limits or SourceLimits()
        self._opener = opener
        self._shared = shared
        self._size = size
        self._reader: RawFile | None = None
        self._all_files: list[Source] | None = None
        self._files: list[Source] | None = None
        self.scratch_in: Path | None = None
        """Where `scratch` lies and stays; a folder for temporary files if None."""
        self._scratch: Path | None = None
        self.spread: Spread | None = None
        """Where an adapter that ``spreads`` has pieces parsed; None: by processes here."""
        self.step = Step()
        """What the reading is at; an adapter that takes several steps sets it."""

    # ------------------------------------------------------------------------- constructors
    @classmethod
    def open_path(
        cls, path: str | Path, *, limits: SourceLimits | None = None, stdin: BinaryIO | None = None
    ) -> Source:
        """The source at ``path``; ``-`` is standard input (or ``stdin``)."""
        if not isinstance(path, str | os.PathLike):
            hint = "Name it as a str or a Path."
            raise UsageError(f"a source is of the type {type(path).__name__}", hint=hint)
        if str(path) == STDIN:
            if stdin is None and sys.stdin is None:
                hint = "Name a file instead of -."
                raise SourceError("there is no standard input to read", hint=hint)
            return cls.from_stream(stdin or sys.stdin.buffer, limits=limits)
        if not str(path).strip():
            raise SourceError("the source has an empty name", hint="A dot is this folder: .")
        path = Path(path)
        try:
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                os.scandir(path).close()
                return cls(path.name or str(path), path=path, limits=limits)
            if stat.S_ISREG(status.st_mode):
                path.open("rb").close()
                return cls._of_file(path.name, path, status.st_size, limits)
            seconds = (limits or SourceLimits()).pipe_seconds
            file = open_stream(path, status.st_mode, seconds)
        except FileNotFoundError as error:
            raise SourceError(f"{path} does not exist", hint=near_names(path)) from error
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise unreadable(str(path), error) from error
        with file:
            return cls.from_stream(file, name=path.name, limits=limits)

    @classmethod
    def several(cls, paths: Iterable[str | Path], *, limits: SourceLimits | None = None) -> Source:
        """Files and folders as one folder, in the order given; files are named by their paths."""
        joined = cls("sources", limits=limits)
        joined._all_files = []
        for path in paths:
            source = cls.open_path(path, limits=limits)
            files = source.files()
            if not files:
                raise SourceError(f"{path} holds no file", hint="Leave it away.")
            for file in files:
                place = PurePath(path, file.name) if source.is_folder else PurePath(path)
                file.name = place.as_posix()
            joined._all_files += files
        return joined

    @classmethod
    def from_stream(
        cls, stream: BinaryIO, *, name: str = STDIN, limits: SourceLimits | None = None
    ) -> Source:
        """A source that holds a copy of everything that ``stream`` gives."""
        spool = spooled(stream, _shown(name), limits or SourceLimits())
        return cls(name, size=spool.tell(), opener=lambda: spool, shared=True, limits=limits)

    @classmethod
    def from_bytes(
        cls, data: bytes, *, name: str = STDIN, limits: SourceLimits | None = None
    ) -> Source:
        """A source that holds ``data``."""
        return cls(name, size=len(data), opener=lambda: io.BytesIO(data), limits=limits)

    @classmethod
    def _of_file(cls, name: str, path: Path, size: int, limits: SourceLimits | None) -> Source:
        return cls(name, size=size, opener=lambda: path.open("rb"), path=path, limits=limits)

    # --------------------------------------------------------------------------- what it is
    def read_as(self, encoding: str) -> None:
        """Read texts without a mark of UTF-8 or UTF-16 in this encoding from now on."""
        self.limits = self.limits._replace(encoding=checked_encoding(encoding))
        vars(self).pop("head", None)
        for file in self._all_files or ():
            file.read_as(encoding)

    @property
    def is_folder(self) -> bool:
        """Whether this is a folder, which has `files` but no content of its own."""
        return self._opener is None

    @property
    def bytes_total(self) -> int:
        """The size in bytes as they lie on disk, compressed."""
        if self.is_folder:
            files = self.files() if self._files is None else self._files
            return sum(file.bytes_total for file in files)
        return self._size

    @property
    def bytes_read(self) -> int:
        """How many of `bytes_total` the current reading has got through."""
        if self.is_folder:
            return sum(file.bytes_read for file in self._files or ())
        return self._reader.position if self._reader else 0

    @property
    def progress(self) -> Step:
        """The `step` of the reading, with the bytes that have been read where they count."""
        if self.step.unit == "parts":
            return self.step
        return self.step._replace(done=self.bytes_read, total=self.bytes_total)

    def where(self, line: int) -> str:
        """How messages name a line: ``entities.jsonl, line 12``."""
        return f"{_shown(self.name)}, line {line}"

    @property
    def label(self) -> str:
        """How messages name the source."""
        return _shown(self.name)

    @property
    def file(self) -> str:
        """How another command names the file, once it is unpacked."""
        return without_suffix(str(self.path or self.name), self.compression)

    @property
    def unpacked(self) -> str:
        """Follows the place of a byte where the file is packed."""
        return " of the unpacked file" if self.compression else ""

    def not_utf8(self, where: str, line: bytes, at: int, error: UnicodeDecodeError) -> RecordError:
        """What is said of a line that begins at byte ``at`` and does not decode."""
        place = f"byte 0x{line[error.start]:02x} at byte {at + error.start:,}{self.unpacked}"
        return not_utf8(f"{where}, {place}", self.file)

    @cached_property
    def compression(self) -> Compression | None:
        """The kind of compression, known by the first bytes and not by the name."""
        with self._raw() as raw:
            return find_compression(self.label, raw.read(MAGIC_BYTES), str(self.path or self.name))

    @cached_property
    def is_zip(self) -> bool:
        """Whether this is a zip archive, which `open_raw` gives to those who read archives."""
        if self.is_folder:
            return False
        with self._raw() as raw:
            return raw.read(len(ZIP_MAGIC)) == ZIP_MAGIC

    @cached_property
    def head(self) -> SourceHead:
        """The name and the beginning, by which an adapter is guessed; of a zip archive as it is."""
        if self.is_folder:
            return SourceHead(self.name, b"", self.path)
        if self.is_zip:
            with self._raw() as raw:
                return SourceHead(self.name, raw.read(HEAD_BYTES), self.path)
        head = self._beginning(self.limits.encoding)
        if not head:
            raise SourceError(f"{self.label} is empty", hint="There is nothing to read in it.")
        return SourceHead(without_suffix(self.name, self.compression), head, self.path)

    def _beginning(self, encoding: str) -> bytes:
        head = bytearray()
        try:
            with self._stream(self._raw(), encoding) as stream:
                while len(head) < HEAD_BYTES and (piece := stream.read1(HEAD_BYTES - len(head))):
                    head += piece
        except SourceError:
            if not head and encoding:  # no text, and no matter for those who read other files
                return self._beginning("")
            if not head:  # else the reader gets as far as it can and says where it breaks
                raise
        return bytes(head)

    def fingerprint(self) -> str:
        """A cheap identity of the content: its size and a hash of its bytes as they are.

        Up to 64 MiB the hash is of all bytes; of a larger file, of 64 MiB in 64 equal strides.
        """
        digest = blake2b(digest_size=16)
        if self.is_folder:
            for file in self.files():
                digest.update(f"{file.name}\0{file.fingerprint()}\0".encode())
        else:
            with self._raw() as raw:
                for start, length in sampled_ranges(self._size):
                    raw.position = start
                    digest.update(raw.read(length))
        return f"blake2b:{self.bytes_total}:{digest.hexdigest()}"

    # -------------------------------------------------------------------------- what it holds
    def files(self, pattern: str = "*") -> list[Source]:
        """The files of a folder that match, in the order of their names; a file is itself.

        Of several sources they are those of each in turn. Hidden files are left out; folders that
        may not be read never are. `bytes_read` and `bytes_total` speak of the last answer.
        """
        if not self.is_folder:
            return [self]
        if self._all_files is None:
            every = sorted(visible_files(cast("Path", self.path)))
            self._all_files = [self._of_file(*one, self.limits) for one in every]
        # Only rglob knows that ** may stand for any number of folders.
        found = set(self.path.rglob(pattern)) if self.path and "/" in pattern else None
        self._files = [
            one for one in self._all_files
            if one.name.endswith("/")
            or (PurePath(one.name).match(pattern) if found is None else one.path in found)
        ]  # fmt: skip
        return list(self._files)

    def open(self) -> BinaryIO:
        """The content from its beginning, decompressed; close it after use."""
        return self._opened("")

    def check_text(self) -> None:
        """Refuse what is no text, by its beginning."""
        check_text(self.label, self.head.head, self.file)

    def open_text(self) -> BinaryIO:
        """As `open`, for a reader of text: in UTF-8, whatever it is in; what is none is refused."""
        self.check_text()
        return self._opened(self.limits.encoding)

    def open_bytes(self) -> BinaryIO:
        """As `open`, whatever the encoding of a text is: its bytes as they are."""
        return self._opened(None)

    def open_raw(self) -> BinaryIO:
        """The bytes as they lie on disk, seekable and not decompressed; close it after use."""
        self._reader = self._raw()
        return cast("BinaryIO", self._reader)

    def open_seekable(self) -> BinaryIO:
        """The content, seekable: an archive as it is, packed files from a temporary copy."""
        if self.is_zip or self.compression is None:
            return self.open_raw()
        with ExitStack() as undo:
            copy = undo.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))
            with self.open_bytes() as stream:
                shutil.copyfileobj(stream, copy)
            copy.seek(0)
            undo.pop_all()
        return cast("BinaryIO", copy)

    def byte_lines(self, problems: Problems) -> Iterator[tuple[int, int, bytes]]:
        r"""Number, byte offset and bytes of every line, split at ``\n`` and ``\r\n`` alone.

        A line longer than the limit is reported to ``problems`` and never held in memory.
        """
        limit = self.limits.max_line_bytes
        offset = number = 0
        with self.open_text() as stream:
            while raw := stream.readline(limit + 2):
                number += 1
                start, offset = offset, offset + len(raw)
                line = raw[:-2] if raw.endswith(b"\r\n") else raw.removesuffix(b"\n")
                if len(line) > limit:
                    skipped, piece = 0, raw
                    while not piece.endswith(b"\n") and (piece := stream.readline(_BUFFER)):
                        skipped += len(piece)
                    offset += skipped
                    problems.refuse(
                        f"the line is longer than {limit:,} bytes",
                        self.where(number),
                        "If it is one record, raise ingest.max_line_mb; if the file has no line "
                        "breaks, write one record per line.",
                    )
                    continue
                if start == 0 and line.startswith(_BOM):
                    line, start = line[len(_BOM) :], len(_BOM)
                yield number, start, line

    def lines(self, problems: Problems) -> Iterator[Line]:
        """The lines as text, strictly UTF-8; others are reported to ``problems``."""
        for number, start, line in self.byte_lines(problems):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                problems.report(self.not_utf8(self.where(number), line, start, error))
                continue
            if "\0" in text:
                hint = "Text holds none; the file may be damaged here."
                problems.refuse("a NUL byte", self.where(number), hint)
                continue
            yield Line(number, text)

    def text(self) -> str:
        """The whole content as one text; `RecordError` where it is none, or is too long."""
        longest = self.limits.max_text_chars
        with self.open_text() as stream:
            raw = stream.read(4 * longest + 1)
        try:
            text = raw.decode("utf-8") if len(raw) <= 4 * longest else ""
        except UnicodeDecodeError as error:
            raise self.not_utf8(self.label, raw, 0, error) from error
        if len(raw) > 4 * longest or len(text) > longest:
            raise text_too_long(self.label, longest)
        if "\0" in text:  # behind the beginning, which was checked
            check_text(self.label, raw, self.file)
        return text.removeprefix("\ufeff")  # a mark of the encoding, and no character

    # -------------------------------------------------------------------------------- scratch
    @property
    def scratch(self) -> Path:
        """A folder in which an adapter keeps what it need not do again after an interruption.

        Only a reading of the same content with the same settings is given the same one.
        """
        if self._scratch is None:
            try:
                self._scratch = self.scratch_in or Path(tempfile.mkdtemp(prefix="kglink-"))
                self._scratch.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SourceError(
                    f"cannot make a scratch folder: {error.strerror or error}",
                    hint="It lies in the workspace, else where TMPDIR says.",
                ) from error
            if self.scratch_in is None:
                weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        return self._scratch

    def drop_scratch(self) -> None:
        """Remove the scratch folder: the reading is complete."""
        if self.scratch_in is not None:
            shutil.rmtree(self.scratch_in, ignore_errors=True)
            with suppress(OSError):  # the last to go takes the empty folder of all with it
                self.scratch_in.parent.rmdir()
            self._scratch = None

    # -------------------------------------------------------------------------------- closing
    def close(self) -> None:
        """Free the copy of a stream; a file or folder has nothing to free."""
        if self._shared and self._opener:
            self._opener().close()
        for file in self._all_files or ():
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    # -------------------------------------------------------------------------------- helpers
    def _raw(self) -> RawFile:
        if self._opener is None:
            raise SourceError(
                f"{self.label} is a folder where a file is wanted",
                hint="Name one of its files, or for `kglink add-kb` an adapter that reads folders "
                "(--adapter).",
            )
        try:
            file = self._opener()
        except OSError as error:
            raise unreadable(self.label, error) from error
        return RawFile(file, self.label, owned=not self._shared, size=self._size)

    def _opened(self, encoding: str | None) -> BinaryIO:
        self._reader = self._raw()
        return cast("BinaryIO", self._stream(self._reader, encoding))

    def _stream(self, raw: RawFile, encoding: str | None) -> io.BufferedReader:
        """The content, as UTF-8 where it is marked UTF-16 or is in ``encoding``; None: as it is."""
        with ExitStack() as undo:
            undo.callback(raw.close)
            kind = self.compression
            plain = cast("BinaryIO", raw)
            packed = unpacked(plain, kind, name=self.label, limits=self.limits) if kind else raw
            stream: io.BufferedReader = io.BufferedReader(packed, _BUFFER)
            if encoding is not None:
                encoding = marked_encoding(stream.peek(len(_BOM) + 1)) or encoding
            undo.pop_all()
        if not encoding or encoding == "utf-8":
            return stream
        text = as_utf8(cast("BinaryIO", stream), encoding, self.label, self.unpacked)
        return io.BufferedReader(text, _BUFFER)


def _shown(name: str) -> str:
    return "standard input" if name == STDIN else name
