"""The overlap loss O: entities of two KBs that are the same thing find each other."""

from __future__ import annotations

from torch import Tensor

from kglink_plugins.objectives.scores import nce, prepared
from kglink_plugins.objectives.settings import ObjectiveSettings


class OverlapLoss:
    """Softmax NCE over rows plus softmax NCE over columns (Bosch, eq. 2).

    Rows are members of one KB, columns of the other; ``-2 s + lse(row) + lse(column)`` for each
    pair. Cells of pairs that are overlaps themselves are right or masked, never wrong.
    """

    def __init__(self, settings: ObjectiveSettings | None = None) -> None:
        self._settings = settings or ObjectiveSettings()

    def loss(self, scores: Tensor, positive: Tensor) -> Tensor:
        """A scalar; rows and columns without a right answer take no part."""
        logits = prepared(scores, positive, self._settings)
        return nce(logits, positive) + nce(logits.mT, positive.mT)
