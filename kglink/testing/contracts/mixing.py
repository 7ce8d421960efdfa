"""What samplers that make negatives must hold to, whatever they make."""

from __future__ import annotations

import torch
from torch import Tensor

from kglink.plugins import Encoded, MixingSampler

_DIM = 5


class _FirstStates:
    """Compares first states by their inner product."""

    def score(self, mentions: Encoded, entities: Encoded) -> Tensor:
        """A (mentions, entities) matrix."""
        return mentions.states[:, 0] @ entities.states[:, 0].T


def check_mixing(sampler: MixingSampler) -> None:
    """The right answer's score comes first; what is masked has no part in the rest."""
    mentions, entities = _states(4, 1), _states(6, 2)
    positive = torch.eye(4, 6, dtype=torch.bool)
    positive[3] = False
    masked = torch.zeros_like(positive)
    masked[0, 1] = masked[1, [0, 2, 3, 4]] = masked[2, 5] = True
    for k in (1, 3, 8):
        made = _mix(sampler, mentions, entities, positive, masked, k)
        assert made.shape == (4, 1 + k), "not (mentions, 1 + k)"
        right = _FirstStates().score(mentions, entities).diagonal()[:3]
        torch.testing.assert_close(made[:3, 0], right, msg="the right answer's score comes first")
        # Mention 0 has 4 others, mention 1 has 1, mention 2 has 4, mention 3 has no right answer.
        for row, others in enumerate((4, 1, 4)):
            held = torch.isfinite(made[row, 1:]).tolist()
            assert held == [at < others for at in range(k)], "-inf where no other is left, last"
        assert made[3].isneginf().all(), "scores without a right answer"
        changed = Encoded(entities.states.clone(), entities.mask)
        changed.states[1, 0] += 9.0
        again = _mix(sampler, mentions, changed, positive, masked, k)
        torch.testing.assert_close(again[0], made[0], msg="a masked entity has a part")
        assert torch.equal(_mix(sampler, mentions, entities, positive, masked, k), made)


def _mix(
    sampler: MixingSampler,
    mentions: Encoded,
    entities: Encoded,
    positive: Tensor,
    masked: Tensor,
    k: int,
) -> Tensor:
    return sampler.mix(_FirstStates(), mentions, entities, positive, masked, k)


def _states(count: int, seed: int) -> Encoded:
    """Texts of one to three tokens."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(count, 3, _DIM, generator=generator)
    return Encoded(states, torch.arange(3) <= torch.arange(count)[:, None] % 3)
