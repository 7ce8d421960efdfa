"""Large contrastive batches in little memory: gradients of the vectors, kept (Gao et al., 2021).

All parts of a batch are encoded without a graph; the loss on their vectors gives each vector's
gradient; then one part after the other is encoded again, with a graph and the same dropout, and
takes its gradients back. The result is the gradient of the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

Part = TypeVar("Part")
#: What a part is encoded as: tensors, those of a floating type with a gradient.
Outputs = tuple[Tensor, ...]


def cached_backward(
    encode: Callable[[Part], Outputs],
    parts: Sequence[Part],
    loss_of: Callable[[list[Outputs]], Tensor],
) -> Tensor:
    """Add the gradients of ``loss_of`` over all parts to the parameters; returns the loss.

    ``loss_of`` gets plain tuples in the order of ``parts``.
    """
    states, outputs = [], []
    for part in parts:
        states.append(_random_state())
        with torch.no_grad():
            outputs.append(_leaves(encode(part)))
    loss = loss_of(outputs)
    backward(loss)
    after = _random_state()
    for number, part in enumerate(parts):
        _restore(states[number])
        _pull(encode(part), outputs[number])
    _restore(after)
    return loss.detach()


def backward(loss: Tensor) -> None:
    """Run a loss backward, but where it stands on no parameter: this process has no texts."""
    if loss.requires_grad:
        torch.autograd.backward(loss)


def _leaves(outputs: Outputs) -> Outputs:
    """The same values as the beginning of a graph."""
    return tuple(output.detach().requires_grad_(output.is_floating_point()) for output in outputs)


def _pull(outputs: Outputs, kept: Outputs) -> None:
    """Send the kept gradients down the graph of a part."""
    pairs = [
        (output, leaf.grad)
        for output, leaf in zip(outputs, kept, strict=True)
        if leaf.grad is not None and output.requires_grad
    ]
    if pairs:
        torch.autograd.backward([output for output, _ in pairs], [grad for _, grad in pairs])


def _random_state() -> list[Tensor]:
    """The generators that dropout draws from."""
    states = [torch.get_rng_state()]
    return [*states, *torch.cuda.get_rng_state_all()] if torch.cuda.is_available() else states


def _restore(states: Sequence[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state_all(list(states[1:]))
