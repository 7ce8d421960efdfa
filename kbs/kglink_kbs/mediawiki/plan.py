"""What the steps of an ingest get, and the files in which they leave their results.

A file of numbered sections is complete or not there: it is written beside its place and renamed.
So it is at once the data and the sign that a step is done, and a killed run goes on behind it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from pydantic import TypeAdapter

from kglink.files.atomic import atomic_file
from kglink.sources.compression import zstd
from kglink_kbs.mediawiki.settings import MediaWikiSettings
from kglink_kbs.mediawiki.site import Site

_LEVEL = 1
_NUMBER = struct.Struct("<Q")
_MAGIC = b"KGSPILL1"


def packed_sections(sections: Sequence[bytes]) -> list[bytes]:
    """What a file of ``sections`` holds, each compressed on its own; empty ones take 8 bytes."""
    packed = [zstd.compress(section, _LEVEL) if section else b"" for section in sections]
    ends, end = [], 0
    for section in packed:
        end += len(section)
        ends.append(end)
    head = _MAGIC + _NUMBER.pack(len(packed)) + struct.pack(f"<{len(ends)}Q", *ends)
    return [head, *packed]


def write_sections(path: Path, sections: Sequence[bytes]) -> None:
    """Write a file of ``sections``."""
    write_packed(path, packed_sections(sections))


def write_packed(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file of packed sections."""
    with atomic_file(path) as out:  # a process of a killed run may still be at the same file
        out.writelines(parts)


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
    return zstd.decompress(packed) if packed else b""


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
    """Lines to be written, by section."""

    def __init__(self, count: int) -> None:
        self._lines: list[list[str]] = [[] for _ in range(count)]

    def add(self, number: int, line: str) -> None:
        """Put a line, without its break, into a section."""
        self._lines[number].append(line)

    def packed(self) -> list[bytes]:
        """The sections as bytes."""
        return [("\n".join(lines) + "\n").encode() if lines else b"" for lines in self._lines]


#: Sections of a chunk's file; behind them one for each part's titles, then one for the links to
#: them, then one for those of the documents.
ABOUT, ENTITIES, DOCUMENTS, PARTS = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides what is read from a dump; every process works from the same one."""

    label: str
    folder: str
    parts: int
    site: Site
    settings: MediaWikiSettings
    """Its language is that of the wiki where none is set."""

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        values: dict[str, Any] = TypeAdapter(Plan).dump_python(self, mode="json")
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Plan:
        """The plan that `as_json` gave."""
        return TypeAdapter(Plan).validate_python(values)

    @property
    def max_page_bytes(self) -> int:
        """The largest page to read."""
        return int(self.settings.max_page_mb * 2**20)

    def chunk(self, number: int) -> Path:
        """What was read from chunk ``number`` of the dump."""
        return Path(self.folder) / f"chunk-{number:06}"

    def tails(self) -> Path:
        """The ends of titles, behind their last slash, that name parts of pages in this wiki."""
        return Path(self.folder) / "tails"

    def asked(self, turn: int, part: int) -> Path:
        """Questions by turn: where redirects lead, and which page owns a subpage."""
        return Path(self.folder) / f"asked-{turn}-{part:04}"

    def answered(self, turn: int, part: int) -> Path:
        """A part's answers to redirects and subpages, by turn."""
        return Path(self.folder) / f"answered-{turn}-{part:04}"

    def joined(self, part: int) -> Path:
        """The names that a part has found for the entities of every group of chunks."""
        return Path(self.folder) / f"joined-{part:04}"

    def part_of(self, title: str) -> int:
        """The part that holds a title and all links to it."""
        return crc32(title.encode()) % self.parts if self.parts > 1 else 0

    def titles_section(self, part: int) -> int:
        """The section of a chunk's file with the titles of a part."""
        return PARTS + part

    def links_section(self, part: int) -> int:
        """The section of a chunk's file with the links to the titles of a part."""
        return PARTS + self.parts + part

    def mentions_section(self, part: int) -> int:
        """The section of a chunk's file with the links of documents to the titles of a part."""
        return PARTS + 2 * self.parts + part
