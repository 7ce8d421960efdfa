"""All aliases of some KBs of a space, as a mention detector reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kglink.files.digest import digest_of
from kglink.plugins import NameRow
from kglink.space.space import Space


class SpaceNames:
    """The names of some KBs; iterating reads them from disk, in order."""

    def __init__(self, space: Space, kbs: Sequence[str]) -> None:
        self._segments = [space.segments[kb] for kb in kbs]
        self.fingerprint = digest_of([segment.folder.name for segment in self._segments])
        self.cache_dir: Path | None = space.folder.path / "cache"

    def __len__(self) -> int:
        return sum(len(segment.surfaces) for segment in self._segments)

    def __iter__(self) -> Iterator[NameRow]:
        for segment in self._segments:
            counts = segment.alias_counts
            rows = zip(segment.surfaces, segment.names.folded, strict=True)
            for at, (surface, folded) in enumerate(rows):
                yield NameRow(surface, folded, segment.kb, int(counts[at]))
