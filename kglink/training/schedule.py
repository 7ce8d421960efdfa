"""The learning rate: it climbs to its height and falls to nothing."""

from __future__ import annotations

from kglink.training.recipe import OverlapSection, StageSection


def rate_at(step: int, steps: int, section: StageSection | OverlapSection) -> float:
    """The learning rate of step ``step`` (from 0) of ``steps``."""
    climbing = round(section.warm_up * steps)
    if step < climbing:
        return section.learning_rate * (step + 1) / climbing
    if section.decay == "none":
        return section.learning_rate
    return section.learning_rate * (steps - step) / (steps - climbing)
