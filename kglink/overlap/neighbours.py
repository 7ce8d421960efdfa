"""Nearest neighbours between two KBs, found exactly, with a correction for hubs.

All rows of one KB are compared with all rows of the other in blocks of a matrix product; the rows
of one entity count by the best of them. Each block is seen once and feeds the best neighbours of
both sides. An entity that is near to everything (a hub) says little by being near: CSLS (Conneau
et al. 2018) takes from twice the cosine the mean cosine of each of the two to its own nearest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from kglink.arrays import FloatArray, IntArray
from kglink.models import Precision, choose_hardware
from kglink.overlap.compared import Compared, digest_of_arrays
from kglink.plugins import EntityVectors
from kglink.records import OnProgress, Progress, Spread

#: Gives some rows of vectors.
_Rows = Callable[[IntArray], FloatArray]

#: Rows of one side that make a block, cut at the borders of entities.
BLOCK_ROWS = 4096
#: Rows of the larger side that a worker of a cluster compares at a time.
PART_ROWS = 16_384
#: Bytes of the smaller side that are kept ready in memory as blocks.
READY_BYTES = 2**31
#: Pairs of entities, and of rows, that are compared again together.
CHUNK_PAIRS = 65_536
CHUNK_ROWS = 65_536
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Pairs that are among the ``k`` nearest of one of the two, as parallel arrays.

    ``left`` and ``right`` are numbers of entities. A rank says how many pairs of the entity have a
    larger ``csls``: 0 is its nearest. Pairs with both ranks 0 are mutual nearest neighbours.
    """

    left: IntArray
    right: IntArray
    cosine: FloatArray
    csls: FloatArray
    left_rank: IntArray
    right_rank: IntArray


class _Block(NamedTuple):
    """Consecutive entities with their rows; entities without rows are not there."""

    matrix: torch.Tensor
    lengths: torch.Tensor
    entities: torch.Tensor

    @property
    def is_plain(self) -> bool:
        """Whether each entity has one row."""
        return len(self.entities) == len(self.matrix)


class _Best:
    """The best ``k`` of the other side for each entity of one side, so far."""

    def __init__(self, entities: int, k: int, device: str) -> None:
        self.scores = torch.full((entities, k), -torch.inf, device=device)
        self.ids = torch.full((entities, k), -1, dtype=torch.int64, device=device)

    def offer(self, entities: torch.Tensor, others: torch.Tensor, scores: torch.Tensor) -> None:
        """Take what is better than the worst that is kept, from an (entities, others) matrix."""
        k = self.scores.shape[1]
        rows = (scores.amax(1) > self.scores[entities, -1]).nonzero()[:, 0]
        if len(rows) < len(scores):
            scores = scores[rows]
        found, at = scores.topk(min(k, scores.shape[1]), dim=1)
        self.merge(entities[rows], found.float(), others[at])

    def merge(self, mine: torch.Tensor | slice, scores: torch.Tensor, ids: torch.Tensor) -> None:
        """Keep the best of what is kept for some entities and of others."""
        found = torch.cat([self.scores[mine], scores], dim=1)
        both = torch.cat([self.ids[mine], ids], dim=1)
        self.scores[mine], order = found.topk(self.scores.shape[1], dim=1)
        self.ids[mine] = both.gather(1, order)

    def pairs(self) -> tuple[IntArray, IntArray]:
        """All that is kept, as numbers of entities and of others."""
        ids = self.ids.cpu().numpy()
        rows, columns = np.nonzero(ids >= 0)
        return rows, ids[rows, columns]


def nearest_neighbours(
    left: EntityVectors,
    right: EntityVectors,
    *,
    k: int = 10,
    device: str = "auto",
    precision: Precision = "auto",
    spread: Spread | None = None,
    kept: Path | None = None,
    progress: OnProgress = lambda _: None,
) -> Neighbours:
    """The ``k`` nearest of each entity of both sides, with hubness taken out.

    Memory is that of a few blocks, of the smaller side's rows (up to 2 GiB), and of ``k`` pairs
    for each entity. With ``spread`` the workers of a cluster compare, and what they found is kept
    in the folder ``kept``, so that a run that was stopped goes on. In half precision, which
    ``auto`` takes where the hardware gains from it, twice as many are found first and compared
    again in full. ``progress`` counts the rows of the larger side.
    """
    hardware = choose_hardware(device, precision)
    turned = len(left.owners) < len(right.owners)
    large, small = (right, left) if turned else (left, right)
    wanted = k if hardware.precision == "fp32" else 2 * k
    if spread:
        rows = _Part(small.owners, small.rows(slice(None)))
        job = NeighbourJob(rows, len(small.keys), wanted, device, hardware.precision)
        of_large, of_small = _compared_elsewhere(job, large, spread, kept, progress)
    else:
        of_large = _Best(len(large.keys), wanted, hardware.device)
        of_small = _Best(len(small.keys), wanted, hardware.device)
        blocks = _Blocks(small, hardware.device, _DTYPES[hardware.precision])
        for done in _compare(large, blocks, of_large, of_small):
            progress(Progress("comparing vectors", done, len(large.owners)))
    found = of_large.pairs(), of_small.pairs()[::-1]
    entities, others = (np.concatenate(side) for side in zip(*found, strict=True))
    lefts, rights = (others, entities) if turned else (entities, others)
    # Each pair once, by left and right number.
    lefts, rights = np.divmod(np.unique(lefts * len(right.keys) + rights), len(right.keys) or 1)
    return _ranked(left, right, lefts, rights, k)


class _Part(NamedTuple):
    """Some rows of one side, which can be sent."""

    owners: IntArray
    matrix: FloatArray

    def rows(self, numbers: slice) -> FloatArray:
        """Some rows."""
        return self.matrix[numbers]


@dataclass(frozen=True)
class NeighbourJob:
    """Compares parts of the larger side with all of the smaller one, wherever there is room."""

    small: _Part
    entities: int
    k: int
    device: str
    precision: Precision
    threads: ClassVar[int] = 1

    @cached_property
    def _blocks(self) -> _Blocks:
        hardware = choose_hardware(self.device, self.precision)
        return _Blocks(self.small, hardware.device, _DTYPES[hardware.precision])

    def load(self) -> None:
        """Make the smaller side ready."""
        assert self._blocks.ready is not None  # noqa: S101 - made here

    def do(self, part: _Part) -> tuple[int, int, tuple[torch.Tensor, ...]]:
        """The part's first entity, its rows, and the scores and numbers of the best of both."""
        first = int(part.owners[0])
        device = self._blocks.device
        of_part = _Best(int(part.owners[-1]) - first + 1, self.k, device)
        of_small = _Best(self.entities, self.k, device)
        from_0 = _Part(part.owners - first, part.matrix)
        for _ in _compare(from_0, self._blocks, of_part, of_small):
            pass
        of_small.ids[of_small.ids >= 0] += first
        found = of_part.scores, of_part.ids, of_small.scores, of_small.ids
        return first, len(part.owners), tuple(one.cpu() for one in found)


def _compared_elsewhere(
    job: NeighbourJob,
    large: EntityVectors,
    spread: Spread,
    folder: Path | None,
    progress: OnProgress,
) -> tuple[_Best, _Best]:
    """The best of both sides, which workers have found part by part."""
    of_large, of_small = (_Best(count, job.k, "cpu") for count in (len(large.keys), job.entities))
    cuts = list(_cuts(large.owners, PART_ROWS))

    def part_of(rows: slice) -> _Part:
        return _Part(large.owners[rows], large.rows(rows))

    found = [one.numpy() for best in (of_large, of_small) for one in (best.scores, best.ids)]
    way = f"{job.entities} {job.k} {job.device} {job.precision}"
    compared = Compared(folder, way, job.small, found) if folder else None
    if compared:
        cuts = cuts[compared.resume(digest_of_arrays(part_of(rows)) for rows in cuts) :]
    done = cuts[0].start if cuts else len(large.owners)
    digests: deque[bytes] = deque()

    def parts() -> Iterator[tuple[str, _Part]]:
        for rows in cuts:
            part = part_of(rows)
            digests.append(digest_of_arrays(part) if compared else b"")
            yield f"rows {rows.start:,} to {rows.stop:,}", part

    with closing(spread(job, parts())) as answers:
        for first, rows, (scores, ids, small_scores, small_ids) in answers:
            of_large.merge(slice(first, first + len(ids)), scores, ids)
            of_small.merge(slice(None), small_scores, small_ids)
            done += rows
            digest = digests.popleft()
            if compared:
                compared.add(digest)
            progress(Progress("comparing vectors", done, len(large.owners)))
    if compared:
        compared.finish()
    return of_large, of_small


def _compare(
    large: EntityVectors | _Part, small: _Blocks, of_large: _Best, of_small: _Best
) -> Iterator[int]:
    """Offer all rows of each side to the other; gives how many of the larger one are done."""
    done = 0
    for block in _Blocks(large, small.device, small.dtype):
        for other in small.ready:
            scores, turned = _by_entity(block, other)
            of_large.offer(block.entities, other.entities, scores)
            of_small.offer(other.entities, block.entities, turned)
        done += len(block.matrix)
        yield done


def cosines(
    left: EntityVectors, right: EntityVectors, lefts: IntArray, rights: IntArray
) -> FloatArray:
    """The best cosine of any two rows of each pair of entities; both must own rows."""
    found = np.empty(len(lefts), np.float32)
    for start in range(0, len(lefts), CHUNK_PAIRS):
        chunk = slice(start, start + CHUNK_PAIRS)
        pairs = RowPairs.of(*_rows_of(left, lefts[chunk]), *_rows_of(right, rights[chunk]))
        found[chunk] = pairs.best_products(left.rows, right.rows)
    return found


class RowPairs(NamedTuple):
    """Each row of one entity with each row of another, for some pairs of entities in turn."""

    left: IntArray
    right: IntArray
    starts: IntArray
    """The first pair of rows of each pair of entities; each has some."""

    @classmethod
    def of(
        cls, left: IntArray, left_counts: IntArray, right: IntArray, right_counts: IntArray
    ) -> RowPairs:
        """Of pairs of entities by their first rows, and how many rows they have."""
        products = left_counts * right_counts
        starts = np.cumsum(products) - products
        pair = np.repeat(np.arange(len(products)), products)
        within = np.arange(len(pair)) - starts[pair]
        width = right_counts[pair]
        return cls(left[pair] + within // width, right[pair] + within % width, starts)

    def best(self, values: npt.ArrayLike) -> FloatArray:
        """The largest of the values of each pair of entities, which come for each pair of rows."""
        given = np.asarray(values, np.float32)
        if not len(given):
            return np.zeros(len(self.starts), np.float32)
        found: FloatArray = np.maximum.reduceat(given, self.starts)
        return found

    def best_products(self, left: _Rows, right: _Rows) -> FloatArray:
        """The largest product of two rows, which are read some at a time."""
        parts = (slice(first, first + CHUNK_ROWS) for first in range(0, len(self.left), CHUNK_ROWS))
        products = [
            np.einsum("nd,nd->n", left(self.left[part]), right(self.right[part])) for part in parts
        ]
        return self.best(np.concatenate([np.empty(0, np.float32), *products]))


class _Blocks:
    """The rows of one side, cut at the borders of entities."""

    def __init__(self, vectors: EntityVectors | _Part, device: str, dtype: torch.dtype) -> None:
        self._vectors = vectors
        self.device = device
        self.dtype = dtype

    @cached_property
    def ready(self) -> Iterable[_Block]:
        """The blocks, kept in memory unless they are too large."""
        rows = len(self._vectors.owners)
        dim = self._vectors.rows(slice(0, 1)).shape[1] if rows else 0
        return list(self) if rows * dim * self.dtype.itemsize <= READY_BYTES else self

    def __iter__(self) -> Iterator[_Block]:
        for rows in _cuts(self._vectors.owners, BLOCK_ROWS):
            entities, lengths = np.unique(self._vectors.owners[rows], return_counts=True)
            matrix = np.require(self._vectors.rows(rows), np.float32, ["C", "W"])
            yield _Block(
                torch.from_numpy(matrix).to(self.device, self.dtype),
                torch.from_numpy(lengths).to(self.device),
                torch.from_numpy(entities.astype(np.int64)).to(self.device),
            )


def _cuts(owners: IntArray, size: int) -> Iterator[slice]:
    """All rows in slices of about ``size``, cut at the borders of entities."""
    start = 0
    while start < len(owners):
        stop = min(start + size, len(owners))
        if stop < len(owners):
            border = int(np.searchsorted(owners, owners[stop]))
            # An entity may have more rows than a slice.
            end = int(np.searchsorted(owners, owners[start], side="right"))
            stop = border if border > start else end
        yield slice(start, stop)
        start = stop


def _by_entity(block: _Block, other: _Block) -> tuple[torch.Tensor, torch.Tensor]:
    """The best cosine of any row of one entity with any row of another, and the transpose."""
    scores = block.matrix @ other.matrix.T
    if not block.is_plain:
        scores = torch.segment_reduce(scores.float(), "max", lengths=block.lengths, axis=0)
    turned = scores.T.contiguous()
    if other.is_plain:
        return scores, turned
    turned = torch.segment_reduce(turned.float(), "max", lengths=other.lengths, axis=0)
    return turned.T.contiguous(), turned


def _ranked(
    left: EntityVectors, right: EntityVectors, lefts: IntArray, rights: IntArray, k: int
) -> Neighbours:
    """Score the pairs and keep those that are among the ``k`` nearest of one of the two."""
    cosine = cosines(left, right, lefts, rights)
    near_left = ranks(lefts, rights, cosine) < k
    near_right = ranks(rights, lefts, cosine) < k
    mean_left = _mean(lefts[near_left], cosine[near_left], len(left.keys))
    mean_right = _mean(rights[near_right], cosine[near_right], len(right.keys))
    kept = near_left | near_right
    lefts, rights, cosine = lefts[kept], rights[kept], cosine[kept]
    csls = (2 * cosine - mean_left[lefts] - mean_right[rights]).astype(np.float32)
    both = ranks(lefts, rights, csls), ranks(rights, lefts, csls)
    return Neighbours(lefts, rights, cosine, csls, *both)


def _mean(entities: IntArray, scores: FloatArray, count: int) -> FloatArray:
    """The mean score of each entity's pairs; 0 for one that has none."""
    total = np.bincount(entities, weights=scores, minlength=count)
    pairs = np.bincount(entities, minlength=count)
    mean: FloatArray = (total / np.maximum(pairs, 1)).astype(np.float32)
    return mean


def _rows_of(vectors: EntityVectors, entities: IntArray) -> tuple[IntArray, IntArray]:
    """The first row of each entity and how many it has."""
    first = np.searchsorted(vectors.owners, entities)
    return first, np.searchsorted(vectors.owners, entities, side="right") - first


def ranks(entities: IntArray, others: IntArray, scores: FloatArray) -> IntArray:
    """For each pair how many of the entity's pairs are better; equal ones by number."""
    order = np.lexsort((others, -scores, entities))
    in_order = entities[order]
    found = np.empty(len(entities), np.int64)
    found[order] = np.arange(len(order)) - np.searchsorted(in_order, in_order)
    return found
