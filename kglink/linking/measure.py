"""Products of vectors as evidence: cosines, or brought into their measure.

A model that was trained with plain products has vectors of any length. What orders its candidates
is the product; to be added up with other evidence it is divided by the length of the mention's
vector, the same for all candidates, and by the mean length of the space's rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kglink.space.manifest import RowKind
from kglink.space.space import Space

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

#: So many rows of each KB tell the mean length.
_SAMPLE = 1024


@dataclass(frozen=True, slots=True)
class Measure:
    """How the products of a space are brought into the measure of cosines."""

    lengths: dict[RowKind, float] = field(default_factory=dict)
    """The mean length of the rows of each kind; empty: all vectors have the length one."""
    tokens: float = 1.0
    """The mean length of the vectors of tokens."""

    def token_evidence(self, sums: FloatArray, query: FloatArray, *, cosine: bool) -> FloatArray:
        """The sums of the best products, or cosines, of each token of a mention: their means."""
        if cosine or not self.lengths:
            return sums / np.float32(max(len(query), 1))
        length = float(np.linalg.norm(query, axis=1).sum())
        return sums / np.float32(max(length * self.tokens, 1e-9))

    def evidence(self, products: FloatArray, query: FloatArray, kind: RowKind) -> FloatArray:
        """The products of one query with some rows."""
        if not self.lengths:
            return products
        return products / np.float32(max(float(np.linalg.norm(query)) * self.lengths[kind], 1e-9))


def measure_of(space: Space, *, cosine: bool) -> Measure:
    """The measure of a space."""
    if cosine:
        return Measure()
    kinds: tuple[RowKind, ...] = ("text", "alias")
    lengths = {kind: _mean_length(space, kind) for kind in kinds if space.has_rows(kind)}
    return Measure(lengths, _mean_token_length(space))


def _mean_length(space: Space, kind: RowKind) -> float:
    lengths = [
        np.linalg.norm(segment.vectors(kind, _sample(segment.row_count(kind))), axis=1)
        for segment in space.segments.values()
    ]
    return float(np.concatenate(lengths).mean())


def _mean_token_length(space: Space) -> float:
    matrices = [
        segment.tokens.take(_sample(len(segment.tokens)))
        for segment in space.segments.values()
        if segment.tokens is not None
    ]
    if not matrices:
        return 1.0
    return float(
        np.concatenate([np.linalg.norm(widened(one.bits), axis=1) for one in matrices]).mean()
    )


def widened(bits: npt.NDArray[np.int16]) -> FloatArray:
    """Numbers in bf16, which NumPy has no type for, as float32: these have 16 bits more behind."""
    return (bits.astype(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _sample(count: int) -> IntArray:
    """So many rows, spread evenly."""
    wanted = min(count, _SAMPLE)
    return np.arange(wanted) * count // max(1, wanted)
