"""A teacher: a reranker that scores the candidates which a student learns from.

The candidates of all mentions are searched with the student, and the teacher reads each of them
once. What it says is kept on disk, and every epoch until the next search learns from it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kglink.files.tables import IntArray
from kglink.models.cross_encoder import CrossEncoder, written_pair
from kglink.models.head_folder import RERANKER
from kglink.records import OnProgress, Progress
from kglink.space.token_rows import FloatArray
from kglink.training.mentions import TRAIN
from kglink.training.pool import as_ids, token_table

#: Mentions between two notes of progress.
_CHUNK = 64


class Teacher:
    """Scores mentions with entities of the pool; both as it reads them itself."""

    def __init__(self, reader: CrossEncoder, folder: Path) -> None:
        self._reader = reader
        self._entities = token_table(folder / "pool-texts")
        self._mentions = token_table(folder / f"{TRAIN}-mentions")

    def scores(
        self, mentions: IntArray, candidates: IntArray, progress: OnProgress = lambda _: None
    ) -> FloatArray:
        """Logits in the order of the candidates, rows of the pool; -inf where one is -1."""
        told = np.full(candidates.shape, -np.inf, np.float32)
        for first in range(0, len(mentions), _CHUNK):
            part = slice(first, first + _CHUNK)
            told[part] = self._read(mentions[part], candidates[part])
            done = min(part.stop, len(mentions))
            progress(Progress("asking the teacher", done, len(mentions)))
        return told

    def _read(self, mentions: IntArray, candidates: IntArray) -> FloatArray:
        windows = as_ids(self._mentions.take(mentions.tolist()))
        rows, columns = np.nonzero(candidates >= 0)
        entities = as_ids(self._entities.take(candidates[rows, columns].tolist()))
        pairs = [
            written_pair(windows[row], entity)
            for row, entity in zip(rows.tolist(), entities, strict=True)
        ]
        told = np.full(candidates.shape, -np.inf, np.float32)
        told[rows, columns] = self._reader.logits_of(
            pairs, [len(windows[row]) for row in rows.tolist()]
        )
        return told


def teacher_fingerprint(folder: str) -> dict[str, str]:
    """The checksums of a teacher's files; none where there is no teacher."""
    if not folder:
        return {}
    return {name: info.blake2b for name, info in RERANKER.read(Path(folder)).files.items()}
