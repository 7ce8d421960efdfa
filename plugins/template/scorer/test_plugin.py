"""The scorer holds to the contract of all scorers, and equals its formula."""

from __future__ import annotations

import torch

from kglink.testing import ScorerContract


class TestFirstToken(ScorerContract):
    """Run by pytest: every check of the contract."""

    plugin = "myvendor/myplugin"
    settings = {"scale": 0.5}

    def expected_score(self, mention: torch.Tensor, entity: torch.Tensor) -> float:
        """Of two matrices with a row for each token."""
        products = zip(mention[0].tolist(), entity[0].tolist(), strict=True)
        return 0.5 * sum(one * other for one, other in products)
