"""Settings of the objectives, apart from them so that reading these loads no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kglink.plugins import PluginSettings


class ObjectiveSettings(PluginSettings):
    """What all objectives have."""

    temperature: float = Field(
        1.0, gt=0, description="Scores are divided by it; cosines need a small one, such as 0.05."
    )
    margin: float = Field(
        0.0, ge=0, description="Taken off right answers' scores: by how much they should lead."
    )


class NceSettings(ObjectiveSettings):
    """What counts as right where several answers are."""

    several: Literal["sum", "mean"] = Field(
        "sum",
        description="Of several right answers: raise their `sum` of shares, so that any may come "
        "first, or the `mean` of their logarithms, so that all must.",
    )
    include_gold: bool = Field(
        True,
        description="Count right answers in the sum that they are divided by. Bosch's eq. 1, read "
        "to the letter, does not, and then the loss has no least value.",
    )


class DistillationSettings(PluginSettings):
    """How far a student listens to its teacher."""

    alpha: float = Field(
        0.5, ge=0, le=1, description="Weight of the right answers; the teacher has the rest."
    )
    student_temperature: float = Field(
        1.0,
        gt=0,
        description="The student's scores are divided by it first; cosines need a small one, such "
        "as 0.05.",
    )
    temperature: float = Field(
        2.0, gt=0, description="Both sides' scores are divided by it where they are compared."
    )
