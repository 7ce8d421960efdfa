"""A segment: one KB's names and vectors in an immutable, memory-mapped folder.

Entities are numbered by the order of their keys. Vector rows come in blocks, one for each kind:
``text`` (row i is entity i) and ``alias`` (row i is alias row i). A segment is named after what
it was made of, so that a build that was interrupted goes on where it stopped, and one that
changes nothing finds its segment ready.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.errors import DamagedFileError, DamagedSpaceError
from kglink.files.digest import digest_of
from kglink.files.manifest import are_known, check_files, forget_checked
from kglink.files.tables import StringTable, map_column, map_offsets
from kglink.space.manifest import RowKind, SegmentInfo, read_part, space_errors
from kglink.space.names import NameIndex
from kglink.space.numbering import LayeredNumbers, Strings, runs_at
from kglink.space.words import HASHES_FILE, WordIndex

if TYPE_CHECKING:
    from kglink.space.token_rows import TokenRows

INFO_FILE = "segment.json"
#: A number of each row: an array, or one of several layers.
FloatColumn = FloatArray | LayeredNumbers
IntColumn = IntArray | LayeredNumbers


class Segment:
    """Read access to one KB of a space."""

    popularity: FloatColumn
    alias_counts: FloatColumn
    alias_starts: IntColumn
    rows: IntArray | None = None
    """The entities that are found; None: all."""
    alias_rows: IntArray | None = None
    """Their alias rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.info = read_part(SegmentInfo, folder / INFO_FILE)
        self.kb = self.info.kb
        # A layer is not what the folder's name says: that is the KB with what lies below.
        layer = self.info.layer
        self.fingerprint = folder.name if layer is None else digest_of([folder.name, layer.below])
        own = layer or self.info
        counts: dict[RowKind, int] = {"text": own.entities, "alias": own.alias_rows}
        entities, aliases = (counts["text"],), (counts["alias"],)
        try:
            # What nobody has touched since is not read again: opening takes as long at any size.
            checked = are_known(folder, self.info.files)
            check_files(folder, self.info.files)
            self.keys: Strings = StringTable(folder / "keys", checked=checked)
            self.titles: Strings = StringTable(folder / "titles", checked=checked)
            self.surfaces: Strings = StringTable(folder / "surfaces", checked=checked)
            self.names = NameIndex(folder, checked=checked)
            self.popularity = map_column(folder / "popularity.npy", np.float32, entities)
            self.alias_counts = map_column(folder / "alias_counts.npy", np.float32, aliases)
            self.alias_starts = map_offsets(folder / "alias_starts.npy", *aliases, checked=checked)
            self._vectors = {
                kind: map_column(
                    folder / f"{kind}.npy", np.float16, (counts[kind], self.info.model.dim)
                )
                for kind in self.info.rows
            }
        except DamagedFileError as error:
            forget_checked(folder)
            raise DamagedSpaceError(error.message) from error
        tables = [self.keys, self.titles, self.alias_starts[1:], self.surfaces, self.names.folded]
        if [len(table) for table in tables] != [*entities * 3, *aliases * 2]:
            raise DamagedSpaceError(f"{folder}: its tables do not fit each other")

    @property
    def indexed(self) -> Segment:
        """The segment whose vectors the joint index holds."""
        return self

    @property
    def layers(self) -> list[Segment]:
        """The segments that it is made of, the newest first."""
        return [self]

    @cached_property
    def proper(self) -> float:
        """The share of titles that are not in lower case, of some from all places."""
        titles = [self.titles[at] for at in range(0, len(self.titles), len(self.titles) // 500 + 1)]
        return sum(not title.islower() for title in titles) / max(1, len(titles))

    @cached_property
    def tokens(self) -> TokenRows | None:
        """The vectors of all tokens of each entity, for a model that compares these."""
        if "tokens.bf16" not in self.info.files:
            return None
        from kglink.space.token_rows import TokenRows

        return TokenRows(self.folder, self.info.model.dim)

    @cached_property
    def words(self) -> WordIndex | None:
        """The index of the words of names and texts; None where the space has none."""
        if HASHES_FILE not in self.info.files:
            return None
        with space_errors():
            index = WordIndex(self.folder, self.info.entities)
        return index if self.rows is None else index.limited(self.rows)

    def limited(self, rows: IntArray) -> Segment:
        """The same, of which these entities alone are found; they come in order."""
        other = copy(self)
        other.rows = rows
        other.alias_rows, _ = self.aliases_of(rows)
        other.fingerprint = digest_of([self.fingerprint, rows.tobytes().hex()])
        other.names = self.names.limited(other.alias_rows)
        other.__dict__.pop("words", None)
        return other

    def row(self, key: str) -> int:
        """The number of an entity, -1 for one that is not there or not to be found."""
        row = self.keys.find(key)
        at = 0 if self.rows is None else int(np.searchsorted(self.rows, row))
        is_found = self.rows is None or (at < len(self.rows) and self.rows[at] == row)
        return row if is_found else -1

    def entity_of(self, alias_rows: IntArray) -> IntArray:
        """The entity that owns each alias row."""
        return np.searchsorted(self.alias_starts, alias_rows, side="right") - 1

    def aliases_of(self, entities: IntArray) -> tuple[IntArray, IntArray]:
        """All alias rows of some entities, and for each the position of its entity in them."""
        starts = self.alias_starts[entities]
        return runs_at(starts, self.alias_starts[entities + 1] - starts)

    def vectors(self, kind: RowKind, rows: IntArray | slice) -> FloatArray:
        """Some vectors of one kind."""
        found: FloatArray = self._vectors[kind][rows].astype(np.float32)
        return found

    def row_count(self, kind: RowKind) -> int:
        """How many vectors of a kind there are."""
        return len(self._vectors[kind]) if kind in self._vectors else 0
