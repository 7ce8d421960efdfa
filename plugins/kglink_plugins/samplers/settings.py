"""Settings of the samplers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kglink.plugins import PluginSettings


class KnnSettings(PluginSettings):
    """Where neighbours are looked for."""

    in_domain: bool = Field(
        False, description="Only in the domains of the mention's own answers (`restrict_type`)."
    )


class ArborescenceSettings(KnnSettings):
    """What each mention is drawn to."""

    positives: Literal["full", "nearest", "random"] = Field(
        "full",
        description="Its parent in the tree over all mentions of its entity (`full`), or over "
        "itself and one other, the `nearest` or a `random` one (1-NN, 1-Rand).",
    )
    nn_scope: Literal["query", "cluster"] = Field(
        "query",
        description="With one other: a tree for each mention (`query`, as in the paper), or one "
        "over all such pairs of an entity (`cluster`, as in the released code).",
    )


class MixedSettings(PluginSettings):
    """How hard the mixture is, and where it comes from."""

    p: float = Field(0.5, ge=0, le=1, description="Share of hard negatives; the rest is random.")
    among: Literal["batch", "domain", "pool"] = Field(
        "batch",
        description="Draw from the other golds of the batch (as AMH does), from the domains of "
        "the mention's own answers, or from all entities.",
    )


class MixupSettings(PluginSettings):
    """How a right answer is mixed into hard negatives."""

    alpha: float = Field(
        0.3, ge=0, description="Share of the right answer in a negative; 0: hard negatives as is."
    )
    negative_weight: Literal["one", "complement"] = Field(
        "one",
        description="Weight of the hard negative in the mixture: one, as in the paper, or what "
        "the right answer leaves of it, 1 - alpha W.",
    )
    temperature: float = Field(1.0, gt=0, description="Scores are divided by it to make W.")
    w_grad: bool = Field(False, description="Send gradients through W as well.")
    detach_positive: bool = Field(
        False, description="Send none through the right answer's part of a mixture."
    )
    detach_negative: bool = Field(
        False, description="Send none through the hard negative's part of a mixture."
    )
