"""The objective holds to the contract of all objectives, and equals its formula."""

from __future__ import annotations

import math

from kglink.testing import ObjectiveContract


class TestMargin(ObjectiveContract):
    """Run by pytest: every check of the contract."""

    plugin = "myvendor/myplugin"
    settings = {"margin": 0.5}

    def expected_loss(self, scores: list[list[float]], positive: list[list[bool]]) -> float:
        """By hand, row by row."""
        total = 0.0
        for row, right in zip(scores, positive, strict=True):
            worst = min((score for score, yes in zip(row, right, strict=True) if yes), default=None)
            if worst is not None:
                wrong = [score for score, yes in zip(row, right, strict=True) if not yes]
                total += sum(max(0.0, 0.5 + one - worst) for one in wrong if math.isfinite(one))
        return total
