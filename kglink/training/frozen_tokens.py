"""The token matrices of the pool as the model makes them now, and exact scores of mentions.

A scorer that says its rule is computed by it, on a processor ten times faster than by asking it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from kglink.encoding.hardware import usable_cores
from kglink.encoding.runtime import TokenMatrices, single_threaded_workers
from kglink.protocols import Encoded, Scorer, SumOfMaxRule, TokenScorer
from kglink.space.token_products import Block, TokenProducts
from kglink.space.token_rows import FloatArray, TokenRows, TokenRowsWriter, texts_between
from kglink.space.token_search import padded
from kglink.training.tables import IntArray

#: Mentions and entities that a scorer is asked about at once.
_MENTIONS, _ENTITIES = 32, 256


class FrozenTokens:
    """The entities of the pool by their token matrices, kept in a folder."""

    def __init__(
        self,
        folder: Path,
        chunks: Iterable[TokenMatrices],
        dim: int,
        scorer: Scorer,
        device: torch.device,
    ) -> None:
        # What an earlier epoch left are the matrices of another model.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with TokenRowsWriter(folder, dim) as writer:
            for chunk in chunks:
                writer.add(chunk)
            writer.finish()
        self._rows = TokenRows(folder, dim)
        self._scorer, self._device = scorer, device

    def scores(self, mentions: TokenMatrices, rows: IntArray, best: int) -> FloatArray:
        """(mentions, entities) scores, of which the ``best`` highest of each mention are exact.

        The others may be rounded, but not so far that they come among these.
        """
        if isinstance(self._scorer, TokenScorer) and self._device.type == "cpu":
            return self._by_rule(mentions, rows, self._scorer.rule, best)
        return self._by_scorer(mentions, rows)

    def _by_rule(
        self, mentions: TokenMatrices, rows: IntArray, rule: SumOfMaxRule, best: int
    ) -> FloatArray:
        scores = np.empty((len(mentions.offsets) - 1, len(rows)), np.float32)
        with single_threaded_workers(usable_cores()) as workers:
            products = TokenProducts(mentions, self._rows, rule, workers)
            first = 0
            for block in products.blocks(rows):

                def refine(at: int, block: Block = block) -> None:
                    places = block.may_be_best(at, best)
                    block.scores[at, places] = products.exact(at, block.rows[places])

                for _ in workers.map(refine, range(len(scores))):
                    pass
                scores[:, first : first + len(block.rows)] = block.scores
                first += len(block.rows)
        return scores

    def _by_scorer(self, mentions: TokenMatrices, rows: IntArray) -> FloatArray:
        count = len(mentions.offsets) - 1
        scores = np.empty((count, len(rows)), np.float32)
        for start in range(0, len(rows), _ENTITIES):
            entities = self._padded(self._rows.take(rows[start : start + _ENTITIES]))
            for first in range(0, count, _MENTIONS):
                stop = min(first + _MENTIONS, count)
                with torch.no_grad():
                    part = self._scorer.score(
                        self._padded(texts_between(mentions, first, stop)), entities
                    )
                scores[first:stop, start : start + _ENTITIES] = part.float().cpu().numpy()
        return scores

    def _padded(self, matrices: TokenMatrices) -> Encoded:
        states, mask = padded(matrices)
        return Encoded(states.to(self._device), mask.to(self._device))
