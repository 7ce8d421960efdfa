"""Knowledge distillation: a student learns from right answers and from its teacher's scores."""

from __future__ import annotations

import torch
from torch import Tensor

from kglink.errors import UsageError
from kglink_plugins.objectives.scores import log_shares, nce, nothing, prepared
from kglink_plugins.objectives.settings import DistillationSettings, ObjectiveSettings


class Distillation:
    """``alpha CE(right, student) + (1 - alpha) CE(softmax(teacher/T), softmax(student/T))``.

    BLINK, eqs. 7 to 10: no factor T squared, no gradient into the teacher.
    """

    needs_teacher = True

    def __init__(self, settings: DistillationSettings | None = None) -> None:
        settings = settings or DistillationSettings()
        self._alpha = settings.alpha
        self._temperature = settings.temperature
        self._plain = ObjectiveSettings()

    def loss(self, scores: Tensor, positive: Tensor, teacher: Tensor | None = None) -> Tensor:
        """A scalar; rows without a right answer take no part."""
        if teacher is None:
            raise UsageError(
                "distillation needs a teacher's scores of the same candidates",
                hint="Give them to loss(), or take another objective.",
            )
        logits = prepared(scores, positive, self._plain)
        shares, _ = log_shares(logits / self._temperature, positive)
        if not len(shares):
            return nothing(scores)
        some = (positive & ~scores.isneginf()).any(dim=1)
        masked = scores[some].isneginf()
        told = (teacher[some].to(shares) / self._temperature).masked_fill(masked, -torch.inf)
        listened = -(told.detach().softmax(dim=1) * shares).sum(dim=1).mean()
        return self._alpha * nce(logits, positive) + (1 - self._alpha) * listened
