"""What a segment is made of: a KB as it is now, and all that decides what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kglink.files.digest import digest_of
from kglink.models.source import ModelInfo
from kglink.space.manifest import RowKind
from kglink.space.segment import Segment

if TYPE_CHECKING:
    from kglink.store.entity_reader import Changes, FoldedEntity


#: Prefix of the folders in which segments are made.
DRAFT = ".draft-"
#: How many rows of each kind a KB needs.
Counts = dict[RowKind, int]


@dataclass(frozen=True, slots=True)
class SpaceSource:
    """A KB to put into a space: what it holds now, how to read it, and how it has changed.

    An earlier revision is given by the store's highest entity id then, and its number.
    """

    kb: str
    revision: int
    content: str
    licence: str
    entities: Callable[[], Iterable[FoldedEntity]]
    """Reads ``content``; an error where the KB holds something else by now."""
    store: str = ""
    """The identity of the store; empty: nothing is known of earlier revisions."""
    last_id: int = -1
    """The store's highest number of an entity now."""
    size: int = 0
    """How many entities there are now."""
    count_changes: Callable[[int, int], int | None] = lambda last_id, revision: None
    """How many entities have changed since an earlier revision; None: all."""
    changes: Callable[[int, int], Changes] | None = None
    """What has changed since."""


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """All that decides what a segment holds."""

    source: SpaceSource
    rows: tuple[RowKind, ...]
    model: ModelInfo
    description_chars: int
    words: bool = False
    """Whether the words of names and texts are indexed as well."""
    below: Segment | None = None
    """The segment that it stands on, and holds the changes of; None: it holds the whole KB."""

    @property
    def kb(self) -> str:
        """The KB's name."""
        return self.source.kb

    @property
    def folder_name(self) -> str:
        """The KB's name and a hash of the plan."""
        parts = [self.kb, self.source.content, list(self.rows), self.model.fingerprint]
        parts.append(str(self.description_chars))
        if self.words:
            parts.append("words")
        return f"{self.kb}-{digest_of(parts, size=6)}"

    @property
    def draft_name(self) -> str:
        """The name of the folder in which it is made."""
        above = f".{self.below.folder.name}" if self.below else ""
        return DRAFT + self.folder_name + above

    @property
    def names_alone(self) -> SegmentPlan:
        """The plan of the same segment without vectors."""
        return replace(self, rows=(), below=None)
