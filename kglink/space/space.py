"""A space as readers see it: the last published version, all KBs in one joint index.

In a limited one some entities alone are found, such as those of a branch: it and its segments
answer as if they held no other entities. Numbers of rows stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.errors import DamagedSpaceError, SpaceError, UnknownNameError, errors_of
from kglink.files.digest import digest_of
from kglink.files.manifest import check_files
from kglink.plugins import NameRow, RowRange
from kglink.records import EntityId
from kglink.space.folder import (
    INDEX_FILE,
    MANIFEST_FILE,
    SpaceFolder,
    build_command,
    index_files,
)
from kglink.space.layers import LayeredSegment, open_segment
from kglink.space.manifest import RowKind, RowSpan, SpaceManifest, space_errors
from kglink.space.rescored import AskedIndex
from kglink.space.segment import Segment

if TYPE_CHECKING:
    from kglink.plugins import IndexBackend, VectorIndex


#: Finds an index back end by its name and settings.
BackendOf = Callable[[str, Mapping[str, str | int | float | bool]], "IndexBackend"]


class Space:
    """Read access to one published version."""

    def __init__(self, folder: SpaceFolder, backend_of: BackendOf) -> None:
        version, manifest = folder.published()
        self.folder = folder
        self.manifest = manifest
        self.version = version.name
        self.segments = {
            kb: open_segment(folder.segments / name) for kb, name in manifest.segments.items()
        }
        if manifest.spans != row_spans(self.segments):
            raise DamagedSpaceError(f"{version / MANIFEST_FILE}: its rows are not its segments'")
        self._spans = {(span.kb, span.kind): span for span in manifest.spans}
        with space_errors():
            check_files(version, index_files(manifest))
        # Opened now: once it is mapped, a build may publish and remove what it likes.
        self._index: VectorIndex | None = None
        if manifest.index_file is not None:
            backend = backend_of(manifest.index, manifest.index_settings)
            vectors_of = partial(_vectors_of, manifest, self.segments)
            with errors_of(f"index back end {manifest.index!r}"):
                index = backend.load(version / INDEX_FILE)
                self._index = AskedIndex(manifest.index, index, vectors_of)
        if (self._index.size if self._index else 0) != manifest.rows:
            raise DamagedSpaceError(f"{version / INDEX_FILE}: not the index of its segments")

    @property
    def index(self) -> VectorIndex:
        """The joint index; an error where no KB has vectors yet."""
        if self._index is None:
            raise no_vectors(self.folder)
        return self._index

    def kbs(self, wanted: Sequence[str] = ()) -> tuple[str, ...]:
        """The wanted KBs, or all, in the order of the space."""
        for kb in wanted:
            if kb not in self.segments:
                raise UnknownNameError(
                    "KB",
                    kb,
                    self.segments,
                    hint=f"`{build_command(self.folder.name)}` puts every KB of the store into "
                    f"space {self.folder.name!r}.",
                )
        return tuple(kb for kb in self.segments if not wanted or kb in wanted)

    def has_rows(self, kind: RowKind, kb: str = "") -> bool:
        """Whether entities, of any or of one KB, own vectors of this kind."""
        return any(span.kind == kind and (not kb or span.kb == kb) for span in self.manifest.spans)

    def leaves_out(self, entity: EntityId) -> bool:
        """Whether an entity is of a KB of which some entities alone are found, and none of them."""
        segment = self.segments.get(entity.kb)
        return segment is not None and segment.rows is not None and segment.row(entity.key) < 0

    def has_name(self, folded: str, kbs: Iterable[str] = ()) -> bool:
        """Whether an entity of some KBs, or of any, has this folded name."""
        return any(len(self.segments[kb].names.exact(folded)) for kb in kbs or self.segments)

    def vectors(self, rows: IntArray) -> FloatArray:
        """The vectors of some rows of the joint index, from the segments; -1 gives zeros."""
        return _vectors_of(self.manifest, self.segments, rows)

    def nearest(
        self, queries: FloatArray, kb: str, kind: RowKind, k: int
    ) -> tuple[FloatArray, IntArray]:
        """The nearest rows of one KB and kind: products and row numbers within the segment.

        None of a KB that has no vectors of this kind. Of a limited one exact for up to
        `MOST_COMPARED` rows; of more the index is asked, within their ranges.
        """
        if not self.has_rows(kind, kb):
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        segment = self.segments[kb]
        rows = segment.rows if kind == "text" else segment.alias_rows
        if rows is None:
            return self._nearest(queries, segment, kind, k)
        if len(rows) <= MOST_COMPARED or isinstance(segment, LayeredSegment):
            return nearest_of(queries, segment, kind, rows, k)
        start = self._spans[kb, kind].start
        scores, found = self.index.search(queries, k, ranges_of(rows + start))
        return scores, np.where(found >= 0, found - start, -1)

    def _nearest(
        self, queries: FloatArray, segment: Segment, kind: RowKind, k: int
    ) -> tuple[FloatArray, IntArray]:
        """The same in one of a KB's segments: the index holds the vectors of the lowest."""
        if isinstance(segment, LayeredSegment):
            rows = np.arange(segment.above.row_count(kind))
            above = nearest_of(queries, segment.above, kind, rows, k)
            return segment.nearest(
                kind, k, above, lambda wanted: self._nearest(queries, segment.below, kind, wanted)
            )
        span = self._spans[segment.kb, kind]
        scores, found = self.index.search(queries, k, [RowRange(span.start, span.stop)])
        return scores, np.where(found >= 0, found - span.start, -1)


def _vectors_of(
    manifest: SpaceManifest, segments: Mapping[str, Segment], rows: IntArray
) -> FloatArray:
    vectors = np.zeros((*rows.shape, manifest.model.dim), dtype=np.float32)
    for span in manifest.spans:
        own = (rows >= span.start) & (rows < span.stop)
        vectors[own] = segments[span.kb].indexed.vectors(span.kind, rows[own] - span.start)
    return vectors


def no_vectors(folder: SpaceFolder) -> SpaceError:
    """The error where vectors are asked for and no KB has any."""
    return SpaceError(
        f"space {folder.name!r} has no vectors yet", hint=f"Run `{build_command(folder.name)}`."
    )


def row_spans(segments: Mapping[str, Segment]) -> tuple[RowSpan, ...]:
    """Which rows of the joint index hold which vectors: KB by KB and kind by kind."""
    spans, start = [], 0
    for kb, segment in segments.items():
        for kind in segment.info.rows:
            stop = start + segment.indexed.row_count(kind)
            spans.append(RowSpan(kb=kb, kind=kind, start=start, stop=stop))
            start = stop
    return tuple(spans)


class SpaceNames:
    """The names of some KBs, as a mention detector reads them from disk, in order."""

    def __init__(
        self, space: Space, kbs: Sequence[str], segments: Sequence[Segment] | None = None
    ) -> None:
        self._space, self._kbs = space, kbs
        self._segments = segments or [space.segments[kb] for kb in kbs]
        self.leaves_out = space.leaves_out
        self.fingerprint = digest_of([segment.fingerprint for segment in self._segments])
        self.cache_dir: Path | None = space.folder.path / "cache"

    @property
    def parts(self) -> list[SpaceNames]:
        """The names as they were once, and all that were added since; else all of them together."""
        first = [segment.indexed for segment in self._segments]
        if any(one.rows is not None for one in self._segments):
            return [self]
        later = [layer for segment in self._segments for layer in segment.layers[:-1]]
        return [SpaceNames(self._space, self._kbs, some) for some in (first, later) if some]

    def has(self, folded: str) -> bool:
        """Whether an entity of the KBs has this folded name now."""
        return self._space.has_name(folded, self._kbs)

    def __len__(self) -> int:
        return sum(
            len(segment.surfaces if segment.alias_rows is None else segment.alias_rows)
            for segment in self._segments
        )

    def __iter__(self) -> Iterator[NameRow]:
        for segment in self._segments:
            rows = zip(segment.surfaces, segment.names.folded, strict=True)
            keys, key, last = iter(segment.keys), "", -1
            found = np.full(len(segment.surfaces), segment.alias_rows is None)
            if segment.alias_rows is not None:
                found[segment.alias_rows] = True
            for first in range(0, len(segment.surfaces), _BLOCK):
                some = np.arange(first, min(first + _BLOCK, len(segment.surfaces)))
                owners = segment.entity_of(some).tolist()
                counts = segment.alias_counts[some].tolist()
                for owner, count, is_found, (surface, folded) in zip(
                    owners, counts, found[some], rows, strict=False
                ):
                    while last < owner:
                        key, last = next(keys), last + 1
                    if is_found:
                        yield NameRow(surface, folded, segment.kb, int(count), key)


#: How many rows are compared one by one, whatever the index; of more the index is asked.
MOST_COMPARED = 1 << 18
_BLOCK = 1 << 14
#: How far two ways of summing one inner product may lie apart, in units of both norms' product.
_ROUNDING = 2e-6


def limited_space(space: Space, keys: Mapping[str, Iterable[str]]) -> Space:
    """The space with only these entities of some KBs, whose keys come in order."""
    limited = copy(space)
    limited.segments = dict(space.segments)
    for kb, of_kb in keys.items():
        wanted = iter(of_kb)
        key = next(wanted, None)
        rows: list[int] = []
        for row, own in enumerate(space.segments[kb].keys):
            while key is not None and key < own:  # came into the store after the space was built
                key = next(wanted, None)
            if key is None:
                break
            if key == own:
                rows.append(row)
        limited.segments[kb] = space.segments[kb].limited(np.array(rows, dtype=np.int64))
    return limited


def nearest_of(
    queries: FloatArray, segment: Segment, kind: RowKind, rows: IntArray, k: int
) -> tuple[FloatArray, IntArray]:
    """Of some rows of a segment those that are nearest, compared one by one.

    Scores and row numbers, best first, (n, k) each, -inf and -1 where fewer exist. Equal scores:
    the smaller row first.
    """
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    found = np.full((len(queries), k), -1, dtype=np.int64)
    lengths = np.linalg.norm(queries, axis=1)
    for first in range(0, len(rows), _BLOCK):
        some = rows[first : first + _BLOCK]
        vectors = segment.vectors(kind, some)
        products = queries @ vectors.T
        slack = _ROUNDING * lengths * np.linalg.norm(vectors, axis=1).max()
        if len(some) > k:
            worst = np.partition(products, -k, axis=1)[:, -k] - slack
        else:
            worst = np.full(len(queries), -np.inf, dtype=np.float32)
        worst = np.maximum(worst, scores[:, -1] - slack)
        for at, least in enumerate(worst):
            near = np.flatnonzero(products[at] >= least)
            # The product's last bits depend on a row's place in a block; a plain sum's do not.
            exact = np.einsum("rd,d->r", vectors[near], queries[at])
            both = np.concatenate([scores[at], exact])
            numbers = np.concatenate([found[at], some[near]])
            best = np.lexsort((numbers, -both))[:k]
            scores[at], found[at] = both[best], numbers[best]
    return scores, found


def ranges_of(rows: IntArray) -> list[RowRange]:
    """Ascending numbers as ranges."""
    ends = np.flatnonzero(np.diff(rows) > 1)
    starts = rows[np.concatenate([[0], ends + 1])]
    stops = rows[np.concatenate([ends, [len(rows) - 1]])] + 1
    return [RowRange(int(start), int(stop)) for start, stop in zip(starts, stops, strict=True)]
