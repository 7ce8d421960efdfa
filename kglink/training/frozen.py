"""The towers as they are now, for searching the whole pool: to mine negatives, to choose by recall.

Vectors of the pool are encoded once for each state of the model and kept memory-mapped on disk;
with ``tokens`` they are the matrices that ``sum_of_max`` reads, in bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from kglink.encoding.bi_encoder import BiEncoder
from kglink.encoding.hardware import Hardware
from kglink.encoding.runtime import TokenEncoder, TokenMatrices, as_bf16
from kglink.encoding.tokenise import IdArray
from kglink.encoding.towers import snapshot
from kglink.protocols import Encoded, PairScores, RowRange, Scorer
from kglink.training.tables import IntArray, RowTable, as_ids

FloatArray = npt.NDArray[np.float32]

_CHUNK = 8192
#: Scores that are held in memory at once.
_SCORES = 1 << 25
#: Mentions and entities whose token matrices are compared at once.
_MENTIONS, _ENTITIES = 32, 256


class FrozenPool:
    """The entities of the pool, encoded, and the tower of mentions to compare with them."""

    def __init__(self, model: BiEncoder, scorer: Scorer, hardware: Hardware, folder: Path) -> None:
        self._scorer = scorer
        self._device = torch.device(hardware.device)
        self._tokens = model.settings.pooling == "tokens"
        self._stem = folder / "vectors"
        self._matrices: TokenMatrices | None = None
        self._vectors: FloatArray | None = None
        cosine = model.settings.metric == "cosine"
        towers = [snapshot(tower, hardware) for tower in model.towers()]
        self._mention, self._entity = (
            TokenEncoder(
                "the model in training", tower, hardware, model.settings.pooling, cosine=cosine
            )
            for tower in (towers[0], towers[-1])
        )

    def encode(self, texts: RowTable, progress: Callable[[int], None] = lambda n: None) -> None:
        """Encode all entities of the pool."""
        rows = range(len(texts))
        chunks = (rows[at : at + _CHUNK] for at in rows[::_CHUNK])
        if self._tokens:
            self._matrices = _write_matrices(
                self._stem, self._matrix_chunks(texts, chunks, progress)
            )
            return
        path = self._stem.with_suffix(".f32")
        # Written, not mapped: on a full disk a write to mapped memory would kill the process.
        path.unlink(missing_ok=True)
        with path.open("wb") as out:
            for chunk in chunks:
                part = self._entity.vectors(as_ids(texts.take(chunk)))
                out.write(part.data)
                progress(len(part))
        shape = (len(texts), self._entity.dim)
        self._vectors = np.memmap(path, np.float32, "r", shape=shape).view(np.ndarray)

    def vectors(self, rows: RowRange) -> FloatArray | None:
        """One vector of each entity, whose inner product with a mention's is the score.

        None where a score takes more than one vector.
        """
        return None if self._vectors is None else self._vectors[rows.start : rows.stop]

    def mention_vectors(self, texts: Sequence[IdArray]) -> FloatArray:
        """One vector of each mention."""
        return self._mention.vectors(texts)

    def scores(
        self, texts: Sequence[IdArray], rows: RowRange
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Exact scores of mentions with all entities of a range, so many mentions at a time."""
        size = max(1, _SCORES // max(1, rows.stop - rows.start))
        for first in range(0, len(texts), size):
            part = slice(first, min(first + size, len(texts)))
            yield part, self._block(texts[part], rows)

    def pair_scores(self, texts: Sequence[IdArray], rows: RowRange) -> PairScores:
        """Scores of these mentions with entities whose numbers count from the range's first."""
        matrices, first = self._mention.matrices(texts), rows.start

        def score(mentions: IntArray, rows: IntArray) -> FloatArray:
            return self._matrix_scores(_take(matrices, mentions), rows + first)

        return score

    def _block(self, texts: Sequence[IdArray], rows: RowRange) -> FloatArray:
        if self._vectors is None:
            matrices = self._mention.matrices(texts)
            return self._matrix_scores(matrices, np.arange(*rows))
        found: FloatArray = self._mention.vectors(texts) @ self._vectors[rows.start : rows.stop].T
        return found

    def _matrix_scores(self, texts: TokenMatrices, rows: IntArray) -> FloatArray:
        """All of some mentions with some entities, as many at once as the scorer may hold."""
        assert self._matrices is not None, "encode() comes first"  # noqa: S101 - a programmer's error
        count = len(texts.offsets) - 1
        scores = np.empty((count, len(rows)), np.float32)
        for start in range(0, len(rows), _ENTITIES):
            entities = self._padded(_take(self._matrices, rows[start : start + _ENTITIES]))
            for first in range(0, count, _MENTIONS):
                chosen = np.arange(first, min(first + _MENTIONS, count))
                with torch.no_grad():
                    part = self._scorer.score(self._padded(_take(texts, chosen)), entities)
                scores[chosen, start : start + _ENTITIES] = part.float().cpu().numpy()
        return scores

    def _matrix_chunks(
        self, texts: RowTable, chunks: Iterator[range], progress: Callable[[int], None]
    ) -> Iterator[TokenMatrices]:
        for chunk in chunks:
            yield self._entity.matrices(as_ids(texts.take(chunk)))
            progress(len(chunk))

    def _padded(self, matrices: TokenMatrices) -> Encoded:
        """Token matrices as scorers read them."""
        lengths = np.diff(matrices.offsets)
        longest = int(lengths.max(initial=1))
        mask = torch.from_numpy(np.arange(longest) < lengths[:, None])
        states = torch.zeros(len(lengths), longest, matrices.bits.shape[1])
        states[mask] = as_bf16(matrices.bits).float()
        return Encoded(states.to(self._device), mask.to(self._device))


def _take(matrices: TokenMatrices, rows: IntArray) -> TokenMatrices:
    """The token matrices of some texts."""
    starts, stops = matrices.offsets[rows], matrices.offsets[rows + 1]
    lengths = stops - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    return TokenMatrices(matrices.bits[places], offsets)


def _write_matrices(stem: Path, chunks: Iterator[TokenMatrices]) -> TokenMatrices:
    path, ends, dim = stem.with_suffix(".bf16"), [np.zeros(1, np.int64)], 1
    path.unlink(missing_ok=True)
    with path.open("wb") as out:
        for chunk in chunks:
            out.write(chunk.bits.data)
            ends.append(chunk.offsets[1:] + ends[-1][-1])
            dim = chunk.bits.shape[1]
    offsets = np.concatenate(ends)
    bits = np.memmap(path, np.int16, "r", shape=(int(offsets[-1]), dim)).view(np.ndarray)
    return TokenMatrices(bits, offsets)
