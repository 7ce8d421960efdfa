"""The losses of training: softmax NCE, pos-neg, binary cross-entropy, overlaps, distillation."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor

from kglink.errors import UsageError
from kglink_plugins.plugin import (
    DistillationSettings,
    NceSettings,
    ObjectiveSettings,
    OverlapLossSettings,
)


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


class PosNeg:
    """``-log sigma_p - sum of log(1 - sigma_n)`` of the softmax over a row (ArboEL, eq. 6).

    The paper's equation lacks the minus. Where one column has nearly all of the softmax, what the
    others leave of it is added up from them, so that the loss stays finite and exact.
    """

    def __init__(self, settings: ObjectiveSettings | None = None) -> None:
        self._settings = settings or ObjectiveSettings()

    def loss(self, scores: Tensor, positive: Tensor) -> Tensor:
        """A scalar, the mean over rows; those without a right answer take no part."""
        logits = prepared(scores, positive, self._settings)
        masked = logits.isneginf()
        some = (positive & ~masked).any(dim=1)
        if not some.any():
            return nothing(scores)
        logits, masked, right = logits[some], masked[some], positive[some]
        right = right & ~masked
        whole = logits.logsumexp(dim=1, keepdim=True)
        shares = (logits - whole).masked_fill(masked, 0.0)
        first = F.one_hot(logits.argmax(dim=1), logits.shape[1]).bool()
        others = logits.masked_fill(first, -torch.inf)
        # A row of one column alone has no negative, and nothing is left of it.
        alone = others.isneginf().all(dim=1, keepdim=True)
        left = others.masked_fill(alone, 0.0).logsumexp(dim=1, keepdim=True) - whole
        small = torch.log1p(-shares.masked_fill(first | masked, -1.0).exp())
        without = torch.where(first, left, small).masked_fill(right | masked, 0.0)
        held = shares.masked_fill(~right, -torch.inf).logsumexp(dim=1)
        return -(held + without.sum(dim=1)).mean()


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


class OverlapLoss:
    """Softmax NCE over rows plus softmax NCE over columns (Bosch, eq. 2).

    Rows are members of one KB, columns of the other; ``-2 s + lse(row) + lse(column)`` for each
    pair. The sums are over the whole row and column, or without the pair itself (`include_gold`).
    Cells of pairs that are overlaps themselves are right or masked, never wrong.
    """

    def __init__(self, settings: OverlapLossSettings | None = None) -> None:
        self._settings = settings or OverlapLossSettings()

    def loss(self, scores: Tensor, positive: Tensor) -> Tensor:
        """A scalar; rows and columns without a right answer take no part."""
        logits = prepared(scores, positive, self._settings)
        loss = nce if self._settings.include_gold else against_others
        return loss(logits, positive) + loss(logits.mT, positive.mT)


class Distillation:
    """``alpha CE(right, student) + (1 - alpha) CE(softmax(teacher/T), softmax(student/T))``.

    BLINK, eqs. 7 to 10: no factor T squared, no gradient into the teacher.
    """

    needs_teacher = True

    def __init__(self, settings: DistillationSettings | None = None) -> None:
        settings = settings or DistillationSettings()
        self._alpha = settings.alpha
        self._temperature = settings.temperature
        self._student = ObjectiveSettings(temperature=settings.student_temperature)

    def loss(self, scores: Tensor, positive: Tensor, teacher: Tensor | None = None) -> Tensor:
        """A scalar; rows without a right answer take no part."""
        if teacher is None:
            raise UsageError(
                "distillation needs a teacher's scores of the same candidates",
                hint="Give them to loss(), or take another objective.",
            )
        logits = prepared(scores, positive, self._student)
        shares, _ = log_shares(logits / self._temperature, positive)
        if not len(shares):
            return nothing(scores)
        some = (positive & ~scores.isneginf()).any(dim=1)
        masked = scores[some].isneginf()
        taught = (teacher[some].to(shares) / self._temperature).masked_fill(masked, -torch.inf)
        listened = -(taught.detach().softmax(dim=1) * shares).sum(dim=1).mean()
        return self._alpha * nce(logits, positive) + (1 - self._alpha) * listened
