"""The pool as the model encodes it now, and exact scores of mentions with its entities."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from kglink.arrays import FloatArray, IntArray
from kglink.files.tables import RowTable
from kglink.models.bi_encoder import BiEncoder
from kglink.models.document_inputs import without_marks
from kglink.models.hardware import Hardware
from kglink.models.inputs import IdArray
from kglink.models.runtime import TokenEncoder, TokenMatrices
from kglink.models.settings import Pooling
from kglink.plugins import PairScores, RowRange, Scorer
from kglink.records import OnProgress, Progress
from kglink.space.token_rows import TokenRows, TokenRowsWriter, texts_at
from kglink.space.token_search import scores_by_tokens
from kglink.training.data import as_ids

#: How many are encoded between two notes of progress.
_CHUNK = 1024
#: Scores that are held in memory at once.
_SCORES = 1 << 25
#: Mentions that are searched by token matrices at once: enough for full products.
_BY_TOKENS = 256


class EncodedPool:
    """The entities of the pool, encoded, and the mention tower to compare with them.

    ``rows``: those of the texts that are encoded, which are numbered anew; None: all.
    """

    def __init__(
        self,
        model: BiEncoder,
        scorer: Scorer,
        hardware: Hardware,
        folder: Path,
        texts: RowTable,
        rows: Sequence[int] | None = None,
        progress: OnProgress = lambda _: None,
    ) -> None:
        self._scorer = scorer
        self._device = torch.device(hardware.device)
        pooling = model.settings.pooling
        self._marks = model.inputs.tag_ids[:2] if pooling == "span" else None
        self._tokens: TokenRows | None = None
        self._vectors: FloatArray | None = None
        self._placed: torch.Tensor | None = None
        cosine = model.settings.searches_by_cosine
        towers = [tower.snapshot(hardware) for tower in model.towers()]
        # An entity is all of one span.
        pooled: Pooling = "mean" if pooling == "span" else pooling
        self._mention, entity = (
            TokenEncoder("the model in training", tower, hardware, pooled, cosine=cosine)
            for tower in (towers[0], towers[-1])
        )
        rows = range(len(texts)) if rows is None else rows
        if pooling == "tokens":
            place = folder / "tokens"
            shutil.rmtree(place, ignore_errors=True)  # those of an earlier epoch
            place.mkdir(parents=True)
            with TokenRowsWriter(place, entity.dim) as writer:
                for ids in _chunks(texts, rows, progress):
                    writer.add(entity.matrices(ids))
                writer.finish()
            self._tokens = TokenRows(place, entity.dim)
            return
        path = folder / "vectors.f32"
        folder.mkdir(parents=True, exist_ok=True)
        # Written, not mapped: on a full disk a write to mapped memory would kill the process.
        path.unlink(missing_ok=True)
        with path.open("wb") as out:
            for ids in _chunks(texts, rows, progress):
                out.write(entity.vectors(ids).data)
        shape = (len(rows), entity.dim)
        self._vectors = np.memmap(path, np.float32, "r", shape=shape).view(np.ndarray)
        if self._device.type != "cpu":
            self.place(self._device)

    def place(self, device: torch.device) -> None:
        """Multiply vectors on this device from now on."""
        self._placed = torch.from_numpy(np.array(self._vectors)).to(device)

    @property
    def is_placed(self) -> bool:
        """Whether vectors lie on a GPU: then it is faster to ask `pair_scores` for their scores."""
        return self._placed is not None

    def vectors(self, rows: RowRange) -> FloatArray | None:
        """One vector for each entity; scores are inner products with mention vectors.

        None for models that compare token matrices.
        """
        return None if self._vectors is None else self._vectors[rows.start : rows.stop]

    def mention_vectors(self, texts: Sequence[IdArray]) -> FloatArray:
        """One vector for each mention."""
        if self._marks:
            return self._mention.span_vectors([without_marks(ids, *self._marks) for ids in texts])
        return self._mention.vectors(texts)

    def scores(
        self, texts: Sequence[IdArray], rows: RowRange, best: int
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Scores of mentions with all entities of a range, a block of mentions at a time.

        The ``best`` highest of each are exact.
        """
        size = max(1, _SCORES // max(1, rows.stop - rows.start))
        if self._vectors is None:
            size = min(size, _BY_TOKENS)
        for first in range(0, len(texts), size):
            part = slice(first, min(first + size, len(texts)))
            if self._vectors is None:
                matrices = self._mention.matrices(texts[part])
                yield part, self._token_scores(matrices, np.arange(*rows), best)
            else:
                yield part, self._products(self.mention_vectors(texts[part]), slice(*rows))

    def pair_scores(self, texts: Sequence[IdArray], rows: RowRange, best: int) -> PairScores:
        """A function that scores these mentions with entities, numbered within the range.

        The ``best`` highest of each call are exact.
        """
        first = rows.start
        if self._tokens is None:
            vectors = self.mention_vectors(texts)
            return lambda mentions, rows: self._products(vectors[mentions], rows + first)
        matrices = self._mention.matrices(texts)

        def score(mentions: IntArray, rows: IntArray) -> FloatArray:
            return self._token_scores(texts_at(matrices, mentions), rows + first, best)

        return score

    def _products(self, mentions: FloatArray, rows: slice | IntArray) -> FloatArray:
        """Scores of vectors with some entities, computed where the model runs."""
        if self._placed is None:
            assert self._vectors is not None  # noqa: S101 - a programmer's error
            found: FloatArray = mentions @ self._vectors[rows].T
            return found
        chosen = self._placed[rows if isinstance(rows, slice) else torch.from_numpy(rows)]
        products = torch.from_numpy(mentions).to(chosen.device) @ chosen.T
        return products.cpu().numpy()

    def _token_scores(self, mentions: TokenMatrices, rows: IntArray, best: int) -> FloatArray:
        assert self._tokens is not None  # noqa: S101 - a programmer's error
        return scores_by_tokens(mentions, self._tokens, rows, self._scorer, best, self._device)


def _chunks(texts: RowTable, rows: Sequence[int], progress: OnProgress) -> Iterator[list[IdArray]]:
    """Texts in chunks; a chunk is encoded by the time the next one is requested."""
    for first in range(0, len(rows), _CHUNK):
        progress(Progress("encoding the pool", first, len(rows)))
        yield as_ids(texts.take(rows[first : first + _CHUNK]))
    progress(Progress("encoding the pool", len(rows), len(rows)))
