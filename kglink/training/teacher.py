"""A teacher: a reranker that scores the candidates which a student learns from.

The candidates of all mentions are searched with the student, and the teacher reads each of them
once. What it says is kept on disk, and every epoch until the next search learns from it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kglink.files.tables import IntArray
from kglink.models.cross_encoder import CrossEncoder, written_pair
from kglink.models.reranker_folder import RERANKER
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
            windows = as_ids(self._mentions.take(mentions[first : first + _CHUNK].tolist()))
            rows, columns = np.nonzero(candidates[first : first + _CHUNK] >= 0)
            wanted = candidates[first + rows, columns].tolist()
            own = [windows[row] for row in rows.tolist()]
            pairs = list(map(written_pair, own, as_ids(self._entities.take(wanted))))
            logits = self._reader.logits_of(pairs, [len(window) for window in own])
            told[first + rows, columns] = logits
            done = min(first + _CHUNK, len(mentions))
            progress(Progress("asking the teacher", done, len(mentions)))
        return told


def teacher_fingerprint(folder: str) -> dict[str, str]:
    """The checksums of a teacher's files; none where there is no teacher."""
    if not folder:
        return {}
    return {name: info.blake2b for name, info in RERANKER.read(Path(folder)).files.items()}
