"""What a space is made of, written beside it: format, model, KBs, rows, checksums, versions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from kglink.errors import DamagedFileError, DamagedSpaceError, NewerFileError, SpaceError
from kglink.files.manifest import FileInfo, ManifestPart, read_manifest
from kglink.models.source import ModelInfo

FORMAT = 1
Part = TypeVar("Part", bound=ManifestPart)
FolderName = Annotated[str, Field(pattern=r"^[^/.][^/]*$")]
RowKind = Literal["text", "alias"]
ROW_KINDS: tuple[RowKind, ...] = ("text", "alias")


class LayerInfo(ManifestPart):
    """What a segment holds of its own that stands on another one."""

    below: FolderName
    """The folder of the other one, beside its own."""
    entities: int
    alias_rows: int


class SegmentInfo(ManifestPart):
    """One KB's share of a space: an immutable folder of names and vectors."""

    format: int = FORMAT
    kb: str
    revision: int
    entities: int
    alias_rows: int
    rows: tuple[RowKind, ...]
    model: ModelInfo
    description_chars: int
    truncated_texts: int
    reused_rows: int
    licence: str = ""
    store: str = ""
    """The identity of the store that it was read from."""
    last_id: int = -1
    """The store's highest number of an entity of that revision; -1: not known."""
    layer: LayerInfo | None = None
    """None: the folder holds the whole KB."""
    files: dict[str, FileInfo]

    @property
    def row_total(self) -> int:
        """How many vectors the KB has."""
        return sum(self.entities if kind == "text" else self.alias_rows for kind in self.rows)


class RowSpan(ManifestPart):
    """Which rows of the joint index hold which vectors of which KB."""

    kb: str
    kind: RowKind
    start: int
    stop: int


class SpaceManifest(ManifestPart):
    """One published version of a space."""

    format: int = FORMAT
    name: str
    created: str
    model: ModelInfo
    segments: dict[str, FolderName]
    """KB name -> segment folder, in KB order."""
    revisions: dict[str, int]
    spans: tuple[RowSpan, ...]
    index: str
    index_settings: dict[str, str | int | float | bool]
    index_file: FileInfo | None
    """None: no KB has vectors yet, all are found by their names alone."""
    indexed: dict[str, str] = Field(default_factory=dict)
    """KB name -> the segment whose vectors the index holds, where it is not the KB's own."""
    words: bool = False
    """Whether the words of names and texts are indexed."""
    settings: dict[str, Any]
    libraries: dict[str, str]

    @model_validator(mode="after")
    def _names_its_kbs_alike(self) -> Self:
        if self.revisions.keys() != self.segments.keys():
            raise ValueError("the revisions are not those of the segments' KBs")
        if strange := {span.kb for span in self.spans} - self.segments.keys():
            raise ValueError(f"rows of {min(strange)!r}, of which there is no segment")
        return self

    @property
    def kbs(self) -> tuple[str, ...]:
        """The KBs of this space, in the order that decides ties."""
        return tuple(self.segments)

    @property
    def rows(self) -> int:
        """How many vectors there are."""
        return self.spans[-1].stop if self.spans else 0

    @property
    def names_alone(self) -> tuple[str, ...]:
        """The KBs that have no vectors yet, and are found by their names alone."""
        return tuple(kb for kb in self.segments if not any(span.kb == kb for span in self.spans))

    @property
    def index_bytes(self) -> int:
        """The size of the index."""
        return self.index_file.bytes if self.index_file else 0


@contextlib.contextmanager
def space_errors() -> Iterator[None]:
    """Turn errors of single files into errors of the space that they belong to."""
    try:
        yield
    except DamagedFileError as error:
        raise DamagedSpaceError(error.message) from error
    except NewerFileError as error:
        raise SpaceError(
            error.message, hint="Upgrade kglink, or rebuild the space with `kglink build --fresh`."
        ) from error


def read_part(kind: type[Part], path: Path) -> Part:
    """Read a manifest of a space, or say what is wrong with it."""
    with space_errors():
        return read_manifest(kind, path, newest=FORMAT)
