"""Settings of the scorers, apart from them so that reading these loads no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kglink.plugins import PluginSettings

#: How two vectors are compared.
Metric = Literal["dot", "cosine"]


class ScorerSettings(PluginSettings):
    """What all scorers have."""

    metric: Metric = Field("dot", description="`dot` product or `cosine` of two vectors.")


class DualSettings(ScorerSettings):
    """Which vector stands for a text."""

    pooling: Literal["cls", "mean"] = Field(
        "cls", description="A text is its first state (`cls`) or the `mean` of its tokens."
    )
