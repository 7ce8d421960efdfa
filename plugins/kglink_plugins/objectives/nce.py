"""Softmax NCE: each mention's right answer against the other columns of its row."""

from __future__ import annotations

from torch import Tensor

from kglink_plugins.objectives.scores import against_others, nce, prepared
from kglink_plugins.objectives.settings import NceSettings


class Nce:
    """``-log sum over right of exp s / sum over all of exp s``, averaged over rows.

    With one right answer it is BLINK's eq. 4 over in-batch columns, T-Biencoder's eq. 6 over a
    mention's own. Of several right answers one may lead by default: a list is good as soon as one
    of them is on top, and gradients are not spent on making them equal.
    """

    def __init__(self, settings: NceSettings | None = None) -> None:
        self._settings = settings or NceSettings()

    def loss(self, scores: Tensor, positive: Tensor) -> Tensor:
        """A scalar; rows without a right answer take no part."""
        logits = prepared(scores, positive, self._settings)
        mean = self._settings.several == "mean"
        if self._settings.include_gold:
            return nce(logits, positive, mean=mean)
        return against_others(logits, positive, mean=mean)
