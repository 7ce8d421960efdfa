"""The settings of the clusterer of mentions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kglink.plugins import PluginSettings


class MentionsSettings(PluginSettings):
    """Settings of ``kglink/mentions``, until `kglink fit --cluster` chooses others."""

    mode: Literal["independent", "directed", "undirected"] = Field(
        "directed",
        description="independent: no mention helps another; directed: each mention has the entity "
        "that explains it best, along a tree; undirected: clusters of the most similar, cut "
        "between their entities.",
    )
    neighbours: int = Field(
        8, ge=1, le=64, description="How many nearest other mentions each is compared with."
    )
    context: float = Field(
        0.5, ge=0, le=1, description="How much texts count when mentions are compared; else names."
    )
    power: float = Field(
        4.0,
        ge=1,
        description="Power of the cosine of two mentions, so that it compares with probabilities.",
    )
    threshold: float = Field(
        0.0, ge=0, le=1, description="Mentions that are less similar do not help each other."
    )
