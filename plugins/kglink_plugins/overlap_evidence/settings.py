"""Settings of evidence, apart from the code that needs arrays."""

from __future__ import annotations

from pydantic import Field

from kglink.plugins import PluginSettings


class FuzzySettings(PluginSettings):
    """Which similar names are looked for."""

    neighbours: int = Field(
        6, ge=0, description="Entities with similar names that one of the smaller KB proposes."
    )
    max_block: int = Field(
        1_000_000,
        ge=0,
        description="A word that would make more pairs of entities than this finds none by itself.",
    )


class NeighbourSettings(PluginSettings):
    """How many neighbours are looked for."""

    neighbours: int = Field(
        12, ge=1, description="Nearest entities that one of the smaller KB proposes."
    )
