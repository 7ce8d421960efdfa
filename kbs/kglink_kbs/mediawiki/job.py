"""What the steps of an ingest are told, and where they leave their results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from kglink_kbs.mediawiki.siteinfo import Site

#: Sections of a chunk's file; behind them one for each part's titles, then one for its links.
ABOUT, ENTITIES, DOCUMENTS, PARTS = 0, 1, 2, 3
#: Sections of the file of a chunk's documents; behind it one for each part's links.
TEXTS, TEXT_PARTS = 0, 1


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides what is read from a dump; every process works from the same one."""

    label: str
    folder: str
    parts: int
    site: Site
    language: str
    sentences: int = 10
    namespaces: tuple[int, ...] = (0,)
    interwiki: tuple[str, ...] = ()
    disambiguation: bool = False
    lists: bool = True
    categories: bool = False
    max_page_bytes: int = 50 * 2**20
    min_anchor_count: int = 1
    documents: int = 0
    seed: int = 0

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return asdict(self) | {"site": self.site.as_json()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Plan:
        """The plan that `as_json` gave."""
        lists = {name: tuple(values[name]) for name in ("namespaces", "interwiki")}
        return cls(**values | lists | {"site": Site.from_json(values["site"])})

    def chunk(self, number: int) -> Path:
        """What was read from chunk ``number`` of the dump."""
        return Path(self.folder) / f"chunk-{number:06}"

    def texts(self, number: int) -> Path:
        """The documents of chunk ``number``, cleaned; behind them, by part, the links in them."""
        return Path(self.folder) / f"texts-{number:06}"

    def asked(self, turn: int, part: int) -> Path:
        """The redirects of a part that ask other parts where they lead, in each turn."""
        return Path(self.folder) / f"asked-{turn}-{part:04}"

    def answered(self, turn: int, part: int) -> Path:
        """Where a part's pages tell the redirects that asked it, in each turn."""
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
