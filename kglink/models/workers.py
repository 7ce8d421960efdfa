"""Training on several cores that never wait for each other.

Each worker, a thread whose torch operations use one core, takes a share of a batch's texts
forward and, when the loss is known, backward. Cores that share every small product spend much of
their time waiting, on a busy machine most of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from kglink.models.runtime import single_threaded_workers

#: Encodes one share of a batch.
Job = Callable[[], tuple[Tensor, ...]]


class TrainingWorkers:
    """Runs the shares of a batch side by side; gradients are summed in the shares' order."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = single_threaded_workers(count)

    def run(self, jobs: Sequence[Job], parameters: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
        """The outputs of all jobs; their gradients reach ``parameters`` and nothing else."""
        if not torch.is_grad_enabled():
            return list(self._pool.map(_without_graph, jobs))
        wanted = [parameter for parameter in parameters if parameter.requires_grad]
        widths: list[int] = []
        flat = _Parallel.apply(self._pool, jobs, widths, *wanted)  # type: ignore[no-untyped-call]  # torch has no types here
        waiting = iter(flat)
        return [tuple(next(waiting) for _ in range(width)) for width in widths]


class _Parallel(Function):
    @staticmethod
    def forward(
        ctx: Any, pool: Executor, jobs: Sequence[Job], widths: list[int], *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        outputs = list(pool.map(_with_graph, jobs))
        widths += [len(output) for output in outputs]
        ctx.pool, ctx.outputs, ctx.parameters = pool, outputs, parameters
        flat = [value.detach() for output in outputs for value in output]
        ctx.mark_non_differentiable(*(value for value in flat if not value.is_floating_point()))
        return tuple(flat)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        waiting = iter(grads)
        shares = [[(value, next(waiting)) for value in output] for output in ctx.outputs]

        def pull(share: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor | None, ...]:
            pairs = [(value, grad) for value, grad in share if value.requires_grad]
            if not pairs:  # a tower that is frozen
                return (None,) * len(ctx.parameters)
            values, given = [value for value, _ in pairs], [grad for _, grad in pairs]
            found: tuple[Tensor | None, ...] = torch.autograd.grad(
                values, ctx.parameters, given, allow_unused=True
            )
            return found

        sums = [_sum(parts) for parts in zip(*ctx.pool.map(pull, shares), strict=True)]
        return None, None, None, *sums


def _with_graph(job: Job) -> tuple[Tensor, ...]:
    with torch.enable_grad():
        return job()


def _without_graph(job: Job) -> tuple[Tensor, ...]:
    with torch.no_grad():
        return job()


def _sum(parts: Sequence[Tensor | None]) -> Tensor | None:
    """The sum in order, so that it is the same each time."""
    there = [part for part in parts if part is not None]
    if not there:
        return None
    total = there[0].clone()
    for part in there[1:]:
        total += part
    return total
