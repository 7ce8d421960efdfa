"""The loss of a batch of mentions: which scores stand in its rows, and what is right in them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kglink.models.bi_encoder import Pair
from kglink.plugins import Encoded, Objective, Scorer
from kglink.training.collate import Columns, MentionBatch, columns_of, own_columns
from kglink.training.negatives import Negatives
from kglink.training.recipe import StageSection
from kglink.training.scoring import column_scores


class ScoreRows:
    """Turns the encoded sides of one batch into its loss.

    Both views of a batch, plain and transformed, have the same negatives.
    """

    def __init__(
        self,
        scorer: Scorer,
        objective: Objective,
        section: StageSection,
        negatives: Negatives,
        batch: MentionBatch,
        rng: np.random.Generator,
    ) -> None:
        self._scorer = scorer
        self._objective = objective
        self._negatives = negatives
        self._batch = batch
        self._rng = rng
        self._columns: Columns | None = None
        if not negatives.are_from_batch:
            self._columns = columns_of(batch, section)

    def loss(self, pair: Pair) -> Tensor:
        """The loss of one view."""
        mentions, entities = _sides(pair)
        mixed = self._mixed(mentions, entities)
        if mixed is not None:
            return mixed
        if self._columns is None:
            self._columns = self._chosen(mentions, entities)
        scores = column_scores(self._scorer, mentions, entities, self._columns)
        positive = torch.from_numpy(self._columns.positive).to(scores.device)
        return self._objective.loss(scores.float(), positive)

    def _mixed(self, mentions: Encoded, entities: Encoded) -> Tensor | None:
        """The loss where negatives are made, not chosen (AMH)."""
        if not self._negatives.are_from_batch:
            return None
        scores = self._negatives.mixed(self._batch, self._scorer, (mentions, entities))
        if scores is None:
            return None
        positive = torch.zeros_like(scores, dtype=torch.bool)
        positive[:, 0] = True
        return self._objective.loss(scores.float(), positive)

    def _chosen(self, mentions: Encoded, entities: Encoded) -> Columns:
        """The gold and other golds of the batch, by the scores of the moment."""
        with torch.no_grad():
            scores = self._scorer.score(mentions, entities).float().cpu().numpy()
        drawn = self._negatives.among(self._batch, scores, self._rng)
        return own_columns(self._batch, drawn)


def _sides(pair: Pair) -> tuple[Encoded, Encoded]:
    if pair.mentions is None or pair.entities is None:
        raise ValueError("a batch of mentions encodes both sides")
    return pair.mentions, pair.entities
