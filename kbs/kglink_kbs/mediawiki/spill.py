"""Files of numbered sections: what one step writes for many, each of which reads its own.

A file is complete or not there: it is written beside its place and renamed. So it is at once the
data and the sign that a step is done, and a killed run finds what it need not do again.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import zstandard

from kglink.files.atomic import atomic_file

_LEVEL = 1
_NUMBER = struct.Struct("<Q")
_MAGIC = b"KGSPILL1"


def write_sections(path: Path, sections: Sequence[bytes]) -> None:
    """Write a file of ``sections``, each compressed on its own; empty ones take 8 bytes."""
    packer = zstandard.ZstdCompressor(level=_LEVEL)
    packed = [packer.compress(section) if section else b"" for section in sections]
    ends, end = [], 0
    for section in packed:
        end += len(section)
        ends.append(end)
    with atomic_file(path) as out:  # a process of a killed run may still be at the same file
        out.write(_MAGIC + _NUMBER.pack(len(packed)))
        out.write(struct.pack(f"<{len(ends)}Q", *ends))
        out.writelines(packed)


def read_section(path: Path, number: int) -> bytes:
    """Section ``number`` of a file."""
    with path.open("rb") as file:
        head = file.read(len(_MAGIC) + _NUMBER.size)
        count = _NUMBER.unpack_from(head, len(_MAGIC))[0]
        file.seek(len(head) + max(number - 1, 0) * _NUMBER.size)
        ends = [_NUMBER.unpack(file.read(_NUMBER.size))[0] for _ in range(1 + (number > 0))]
        start, stop = (0, ends[0]) if number == 0 else ends
        file.seek(len(head) + count * _NUMBER.size + start)
        packed = file.read(stop - start)
    return zstandard.ZstdDecompressor().decompress(packed) if packed else b""


def read_lines(paths: Iterable[Path], number: int) -> Iterator[list[str]]:
    r"""The lines of section ``number`` of each file, each split at its tabs."""
    for path in paths:
        data = read_section(path, number)
        if data:
            for line in data.decode("utf-8").split("\n")[:-1]:
                yield line.split("\t")


def json_rows(section: bytes) -> list[list[Any]]:
    """The JSON arrays of a section, one on each of its lines, read at once."""
    rows: list[list[Any]] = json.loads(b"[%b]" % b",".join(section.split(b"\n")[:-1]))
    return rows


class Sections:
    """Lines on their way into sections."""

    def __init__(self, count: int) -> None:
        self._lines: list[list[str]] = [[] for _ in range(count)]

    def add(self, number: int, line: str) -> None:
        """Put a line, without its break, into a section."""
        self._lines[number].append(line)

    def packed(self) -> list[bytes]:
        """The sections as bytes."""
        return [("\n".join(lines) + "\n").encode() if lines else b"" for lines in self._lines]
