"""What every reader of a packed file has in common: a raw stream, a guard, a place to name."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Generator
from typing import TYPE_CHECKING, BinaryIO

from kglink.errors import SourceError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from kglink.sources.values import SourceLimits


class Unpacked(io.RawIOBase):
    """The unpacked bytes of ``raw``, as a raw stream; ``kind`` is the name of the packer."""

    check_command = "{kind} -t {name}"

    def __init__(self, raw: BinaryIO, kind: str, *, name: str, limits: SourceLimits) -> None:
        self._raw = raw
        self._kind = kind
        self._name = name
        self._limits = limits
        self._read = self._written = self._lines = 0
        self._pieces = self._unpack()
        self._left = memoryview(b"")

    @abstractmethod
    def _unpack(self) -> Generator[bytes, None, None]:
        """The bytes in bounded pieces, each of them `_counted`."""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill ``buffer`` with what comes next; 0 at the end."""
        if not self._left:
            self._left = memoryview(next(self._pieces, b""))
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._left))
        target[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def close(self) -> None:
        """Close the packed stream too."""
        if not self.closed:
            self._pieces.close()
            self._raw.close()
        super().close()

    def _counted(self, piece: bytes) -> bytes:
        self._written += len(piece)
        self._lines += piece.count(b"\n")
        self._limits.check_growth(self._name, self._read, self._written, self._kind)
        return piece

    def _damaged(self, reason: object) -> SourceError:
        return SourceError(
            f"{self._name} is damaged: {reason} ({self._place()})", hint=self._copy_again()
        )

    def _copy_again(self) -> str:
        command = self.check_command.format(kind=self._kind, name=self._name)
        return f"Copy or download it again; {command} checks it."

    def _place(self) -> str:
        return (
            f"in line {self._lines + 1:,}, after {self._written:,} unpacked bytes, "
            f"near byte {self._read:,} of the file"
        )
