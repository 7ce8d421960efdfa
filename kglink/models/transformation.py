"""The transformational encoder: states after a layer become Z + A Z, with A an adversary.

While the encoder lowers its loss L + L', A raises L' within a ball of radius epsilon in the
Frobenius norm. Inference knows nothing of A (Sun et al., Findings of ACL 2022).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kglink.errors import UsageError
from kglink.models.settings import TransformationSettings

Side = Literal["mention", "entity"]
SIDES: tuple[Side, Side] = ("mention", "entity")
#: A hair inside of the ball, so that rounding cannot leave A outside.
_INSIDE = 1 - 1e-6


class Transformation(nn.Module):
    """The matrices A of both sides: one each, or one for each domain.

    They are zero at first, or, with ``init = "gaussian"``, random ones of norm epsilon.
    """

    def __init__(
        self, dim: int, settings: TransformationSettings, *, domains: int = 1, seed: int = 0
    ) -> None:
        super().__init__()
        self.settings = settings
        self.moved: dict[Side, Tensor] = {}
        """``|A Z| / |Z|`` of the states that were last transformed, as a number for each side."""
        count = domains if settings.per_domain else 1
        chance = torch.Generator().manual_seed(seed)

        def begin() -> Tensor:
            if settings.init == "zero":
                return torch.zeros(count, dim, dim)
            drawn = torch.randn(count, dim, dim, generator=chance)
            scaled: Tensor = drawn * (
                settings.epsilon * _INSIDE / drawn.norm(dim=(1, 2), keepdim=True)
            )
            return scaled

        self.matrices = nn.ParameterDict({side: nn.Parameter(begin()) for side in SIDES})

    def forward(self, states: Tensor, side: Side, domains: Tensor | None = None) -> Tensor:
        """``Z + Z Aᵀ`` for states in rows; ``domains`` says which A each row takes."""
        matrices: Tensor = self.matrices[side].to(states.dtype)
        if len(matrices) == 1:
            return self._moved(states, states @ matrices[0].T, side)
        if domains is None:
            raise UsageError(
                "a transformation for each domain needs to be told the domains",
                hint="Give the domain of each text, or set per_domain = false.",
            )
        order = torch.argsort(domains, stable=True)
        counts = torch.bincount(domains, minlength=len(matrices)).tolist()
        parts = torch.split_with_sizes(states.index_select(0, order), counts)
        moved = [part @ matrix.T for part, matrix in zip(parts, matrices, strict=True)]
        back = torch.argsort(order)
        return self._moved(states, torch.cat(moved).index_select(0, back), side)

    def _moved(self, states: Tensor, change: Tensor, side: Side) -> Tensor:
        lengths = (part.detach().float().norm() for part in (change, states))
        self.moved[side] = next(lengths) / next(lengths).clamp_min(1e-12)
        return states + change

    def norms(self) -> dict[Side, list[float]]:
        """The Frobenius norm of each A."""
        return {side: self.matrices[side].detach().norm(dim=(1, 2)).tolist() for side in SIDES}

    @torch.no_grad()
    def project(self) -> None:
        """Bring every A back into its ball."""
        for side in SIDES:
            matrix = self.matrices[side]
            norms = matrix.norm(dim=(1, 2), keepdim=True)
            outside = norms > self.settings.epsilon
            shrunk = matrix * (self.settings.epsilon / norms * _INSIDE)
            matrix.copy_(torch.where(outside, shrunk, matrix))


class Ascent:
    """Moves A up the gradient of L', which alone reaches it, and back into its ball."""

    def __init__(self, transformation: Transformation) -> None:
        self._transformation = transformation
        settings = transformation.settings
        self._adam = (
            torch.optim.Adam(transformation.parameters(), lr=settings.learning_rate, maximize=True)
            if settings.ascent == "adam"
            else None
        )

    @property
    def steps(self) -> int:
        """How often A climbs for each batch."""
        return self._transformation.settings.ascent_steps

    def stay(self) -> None:
        """Forget the gradients that a backward pass has left: it was the encoder's turn."""
        self._transformation.zero_grad()

    @torch.no_grad()
    def step(self) -> None:
        """One step with the gradients that a backward pass has left, which are then cleared."""
        if longest := self._transformation.settings.clip:
            nn.utils.clip_grad_norm_(self._transformation.parameters(), longest)
        if self._adam is not None:
            self._adam.step()
        else:
            length = self._transformation.settings.epsilon / 20
            for matrix in self._transformation.parameters():
                if matrix.grad is not None:
                    norms = matrix.grad.norm(dim=(1, 2), keepdim=True)
                    # An A without a gradient (its domain is not in the batch) stays where it is.
                    moved = torch.where(norms > 0, length * matrix.grad / norms, 0)
                    matrix.add_(moved)
        self._transformation.zero_grad()
        self._transformation.project()

    def measures(self) -> dict[str, dict[Side, float]]:
        """The largest norm of A, and how far it moved states (``|A Z| / |Z|``), of each side."""
        whole = self._transformation
        norms = {side: max(found) for side, found in whole.norms().items()}
        return {"norm": norms, "moved": {side: float(one) for side, one in whole.moved.items()}}

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs, besides the matrices, to go on."""
        return self._adam.state_dict() if self._adam is not None else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state_dict``."""
        if self._adam is not None:
            self._adam.load_state_dict(copy.deepcopy(dict(state)))
