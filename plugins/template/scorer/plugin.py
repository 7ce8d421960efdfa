"""Compares the first token of a mention with the first token of an entity.

Use it: kglink finetune --set model.scorer=myvendor/myplugin
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink.plugins import Encoded, PluginSettings, Register, hookimpl

if TYPE_CHECKING:
    import torch


class FirstTokenSettings(PluginSettings):
    """The settings of the scorer."""

    scale: float = 1.0
    """Every score is multiplied by it."""


class FirstTokenScorer:
    """The inner product of first tokens."""

    def __init__(self, settings: FirstTokenSettings) -> None:
        self._scale = settings.scale

    def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
        """A (mentions, entities) matrix; it also works under `torch.func.vmap`."""
        return self._scale * mentions.states[:, 0] @ entities.states[:, 0].T


@hookimpl
def register_scorers(register: Register) -> None:
    """Offer the scorer."""
    register(
        "myvendor/myplugin",
        FirstTokenScorer,
        settings=FirstTokenSettings,
        summary="Inner product of the first tokens",
    )
