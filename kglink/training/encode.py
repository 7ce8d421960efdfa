"""Encoding a batch for its loss: shared among processes, and in parts that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kglink.models.bi_encoder import BiEncoder, Output, Pair, ViewMode
from kglink.models.grad_cache import Outputs, cached_backward
from kglink.models.packing import join
from kglink.models.tokenise import IdArray
from kglink.plugins import Encoded
from kglink.training.team import Team


class Texts(NamedTuple):
    """The texts of one side, and the domain of each where a transformation asks for it."""

    ids: Sequence[IdArray]
    domains: Sequence[int]

    def part(self, rows: range) -> Texts:
        """Some of them."""
        domains = [self.domains[row] for row in rows] if self.domains else []
        return Texts([self.ids[row] for row in rows], domains)


#: The loss of a batch as it is (L), or as the transformation makes it (L').
PairLoss = Callable[[Pair], Tensor]


class Encoding(NamedTuple):
    """How batches are encoded."""

    model: BiEncoder
    team: Team
    view: ViewMode
    micro_batch: int

    def backward(self, mentions: Texts, entities: Texts, loss_of: PairLoss, weight: float) -> float:
        """Add the gradients of ``weight`` times the loss to the parameters; returns the loss."""
        shares = [side.part(self.team.share(len(side.ids))) for side in (mentions, entities)]
        parts = _parts(shares[0], shares[1], self.micro_batch)
        counts = len(mentions.ids), len(entities.ids)

        def whole(outputs: list[Outputs]) -> Tensor:
            views = [self._gathered(outputs, view, counts) for view in (0, 1)]
            losses = [loss_of(pair) for pair in views if pair is not None]
            return torch.stack(losses).sum() * weight

        if len(parts) == 1:
            loss = whole([self._encode(parts[0])])
            _backward(loss)
        else:
            loss = cached_backward(self._encode, parts, whole, backward=_backward)
        return float(loss.detach())

    def _encode(self, part: tuple[Texts, Texts]) -> Outputs:
        """Both views of both sides as one flat tuple; what is not there is empty."""
        mentions, entities = part
        domains = (
            (mentions.domains, entities.domains) if mentions.domains or entities.domains else None
        )
        output: Output = self.model(mentions.ids, entities.ids, view=self.view, domains=domains)
        empty = Encoded(torch.empty(0), torch.empty(0, dtype=torch.bool))
        sides = [side for pair in output for side in (pair or (None, None))]
        return tuple(value for side in sides for value in (side or empty))

    def _gathered(
        self, outputs: Sequence[Outputs], view: int, counts: tuple[int, int]
    ) -> Pair | None:
        """One view of the whole batch; None where it is not wanted."""
        sides: list[Encoded | None] = []
        for side, count in enumerate(counts):
            at = 4 * view + 2 * side
            own = [Encoded(part[at], part[at + 1]) for part in outputs if part[at].numel()]
            if not own and not self._wanted(view, count):
                sides.append(None)
                continue
            sides.append(self.team.gather(join(own) if own else self._nothing(), count))
        return None if sides == [None, None] else Pair(*sides)

    def _wanted(self, view: int, count: int) -> bool:
        """Whether other processes have texts of a view that this one has none of."""
        wanted = {"plain": (0,), "both": (0, 1), "transformed": (1,)}[self.view]
        return view in wanted and count > 0

    def _nothing(self) -> Encoded:
        device = self.model.device
        states = torch.zeros(0, 1, self.model.dim, device=device)
        return Encoded(states, torch.zeros(0, 1, dtype=torch.bool, device=device))


def _parts(mentions: Texts, entities: Texts, most: int) -> list[tuple[Texts, Texts]]:
    """Both sides cut into equal parts of at most ``most`` texts; 0: one part."""
    texts = len(mentions.ids) + len(entities.ids)
    count = -(-texts // most) if most else 1

    def cut(side: Texts, at: int) -> Texts:
        size = len(side.ids)
        return side.part(range(size * at // count, size * (at + 1) // count))

    parts = [(cut(mentions, at), cut(entities, at)) for at in range(max(1, count))]
    return [part for part in parts if part[0].ids or part[1].ids] or parts[:1]


def _backward(loss: Tensor) -> None:
    if loss.requires_grad:  # not where this process has none of the batch's texts
        torch.autograd.backward(loss)
