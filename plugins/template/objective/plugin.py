"""A loss of margins: each wrong answer should score at least 1 below the worst right one.

Use it: kglink finetune --set train.objective=myvendor/myplugin
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink.plugins import PluginSettings, Register, hookimpl

if TYPE_CHECKING:
    import torch


class MarginSettings(PluginSettings):
    """The settings of the objective."""

    margin: float = 1.0
    """How far below the worst right answer a wrong one costs nothing."""


class MarginObjective:
    """The sum of what is missing to the margins."""

    def __init__(self, settings: MarginSettings) -> None:
        self._margin = settings.margin

    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        """A scalar; a cell that holds -inf takes no part, nor a row without a right answer."""
        import torch

        worst = scores.masked_fill(~positive, torch.inf).amin(dim=1, keepdim=True)
        counted = ~positive & positive.any(dim=1, keepdim=True) & torch.isfinite(scores)
        lead = scores.masked_fill(~counted, 0) - worst.masked_fill(worst.isinf(), 0)
        return (self._margin + lead).relu().masked_fill(~counted, 0).sum()


@hookimpl
def register_objectives(register: Register) -> None:
    """Offer the objective."""
    register(
        "myvendor/myplugin",
        MarginObjective,
        settings=MarginSettings,
        summary="Sum of margin violations",
    )
