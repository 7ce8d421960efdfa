"""Binary cross-entropy: every pair of a mention and an entity is right or wrong by itself."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor

from kglink_plugins.objectives.scores import nothing, prepared
from kglink_plugins.objectives.settings import ObjectiveSettings


class Bce:
    """``-log sigma(s_p) - sum of log(1 - sigma(s_n))``, averaged over mentions (AMH, eq. 11).

    The terms of a mention are added up, not averaged. A mention without a right answer counts:
    all its columns are wrong.
    """

    def __init__(self, settings: ObjectiveSettings | None = None) -> None:
        self._settings = settings or ObjectiveSettings()

    def loss(self, scores: Tensor, positive: Tensor) -> Tensor:
        """A scalar; rows of which nothing is left take no part."""
        masked = scores.isneginf()
        rows = (~masked).any(dim=1).sum()
        if not rows:
            return nothing(scores)
        logits = prepared(scores.masked_fill(masked, 0.0), positive, self._settings)
        terms = F.softplus(logits.where(~positive, -logits))
        return terms.masked_fill(masked, 0.0).sum() / rows
