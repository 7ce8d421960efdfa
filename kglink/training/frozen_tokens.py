"""The token matrices of the pool as the model makes them now, and exact scores of mentions.

A scorer that says its rule is computed by it, on a processor ten times faster than by asking it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from kglink.files.tables import IntArray
from kglink.models.hardware import usable_cores
from kglink.models.runtime import TokenMatrices, single_threaded_workers
from kglink.plugins import Scorer, SumOfMaxRule, TokenScorer
from kglink.space.token_products import Block, TokenProducts
from kglink.space.token_rows import FloatArray, TokenRows, TokenRowsWriter
from kglink.space.token_search import scored_blocks


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
        scores = np.empty((len(mentions.offsets) - 1, len(rows)), np.float32)
        blocks = scored_blocks(self._scorer, mentions, self._rows, rows, self._device)
        for some, entities, part in blocks:
            scores[some, entities] = part
        return scores

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
