"""What objectives share: scores that are safe to compute with."""

from __future__ import annotations

import torch
from torch import Tensor

from kglink_plugins.objectives.settings import ObjectiveSettings


def prepared(scores: Tensor, positive: Tensor, settings: ObjectiveSettings) -> Tensor:
    """Scores in float32, the margin taken off right answers, divided by the temperature."""
    wide = scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores
    return torch.where(positive, wide - settings.margin, wide) / settings.temperature


def nothing(scores: Tensor) -> Tensor:
    """A loss of zero that still belongs to the graph."""
    return scores.masked_fill(scores.isneginf(), 0.0).sum() * 0.0


def log_shares(scores: Tensor, positive: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of the softmax over each row that has a right answer, and those answers.

    Other rows are left out: a softmax without a right answer says nothing. Masked cells hold 0.
    """
    right = positive & ~scores.isneginf()
    some = right.any(dim=1)
    logits, right = scores[some], right[some]
    return logits.log_softmax(dim=1).masked_fill(logits.isneginf(), 0.0), right


def against_others(scores: Tensor, positive: Tensor, *, mean: bool = False) -> Tensor:
    """The other columns' part of the softmax less that of the right answers, averaged over rows.

    Rows without a right answer, or without another one, take no part.
    """
    right, wrong = positive & ~scores.isneginf(), ~positive & ~scores.isneginf()
    some = right.any(dim=1) & wrong.any(dim=1)
    if not some.any():
        return nothing(scores)
    logits, right, wrong = scores[some], right[some], wrong[some]
    others = logits.masked_fill(~wrong, -torch.inf).logsumexp(dim=1)
    if mean:
        return (others - logits.masked_fill(~right, 0.0).sum(dim=1) / right.sum(dim=1)).mean()
    return (others - logits.masked_fill(~right, -torch.inf).logsumexp(dim=1)).mean()


def nce(scores: Tensor, positive: Tensor, *, mean: bool = False) -> Tensor:
    """Minus the logarithm of the right answers' share of the softmax, averaged over rows."""
    shares, right = log_shares(scores, positive)
    if not len(shares):
        return nothing(scores)
    if mean:
        return -(shares.masked_fill(~right, 0.0).sum(dim=1) / right.sum(dim=1)).mean()
    return -shares.masked_fill(~right, -torch.inf).logsumexp(dim=1).mean()
