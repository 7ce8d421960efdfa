"""The processes of a run, one or many, through Accelerate: who am I, and what have the others.

Every process encodes its share of a batch and sees the vectors of all; all of them compute one
and the same loss, each sends the gradients of its own vectors back, and the gradients of the
parameters are summed. So the loss is that of the whole batch, whatever the objective.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor
from torch.autograd import Function

from kglink.plugins import Encoded

#: While one process looks for hard negatives the others wait; that may take hours.
_PATIENCE = timedelta(hours=24)
#: The longest text that is told, such as the name of a run.
_MOST_BYTES = 512


class Team:
    """All processes of a run, seen from one of them."""

    def __init__(self, device: str = "auto") -> None:
        waiting = InitProcessGroupKwargs(timeout=_PATIENCE)
        # Without a GPU Accelerate must be told that it is for CPUs, or each process runs alone.
        on_cpu = device == "cpu" or not torch.cuda.is_available()
        self._accelerator = Accelerator(cpu=on_cpu, kwargs_handlers=[waiting])
        self.count: int = self._accelerator.num_processes
        self.rank: int = self._accelerator.process_index
        self.is_first: bool = self._accelerator.is_main_process

    def device(self, device: str) -> str:
        """The device of this process: with several processes its own GPU."""
        if device == "cpu" or self._accelerator.device.type == "cpu":
            return "cpu"
        return str(self._accelerator.device) if self.count > 1 else device

    def wait(self) -> None:
        """Go on when all have come here."""
        self._accelerator.wait_for_everyone()

    def share(self, count: int, rank: int | None = None) -> range:
        """Which of ``count`` texts are those of a process: as even as can be."""
        rank = self.rank if rank is None else rank
        return range(count * rank // self.count, count * (rank + 1) // self.count)

    def gather(self, own: Encoded, count: int) -> Encoded:
        """All ``count`` texts of a batch, of which ``own`` is this process's share."""
        if self.count == 1:
            return own
        shares = [len(self.share(count, rank)) for rank in range(self.count)]
        length = torch.tensor(own.mask.shape[1], device=own.mask.device)
        longest = int(self._accelerator.gather(length.reshape(1)).max())
        spare = (longest - own.mask.shape[1], max(shares) - len(own.mask))
        states = F.pad(own.states, (0, 0, 0, spare[0], 0, spare[1]))
        mask = F.pad(own.mask, (0, spare[0], 0, spare[1]))
        all_states = _Gather.apply(self._accelerator, states)  # type: ignore[no-untyped-call]  # torch has no types here
        all_masks = self._accelerator.gather(mask)
        kept = torch.tensor(
            [rank * max(shares) + row for rank, n in enumerate(shares) for row in range(n)],
            device=mask.device,
        )
        return Encoded(all_states.index_select(0, kept), all_masks.index_select(0, kept))

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Give every process the sum of all processes' gradients; none stays none."""
        if self.count == 1:
            return
        wanted = [parameter for parameter in parameters if parameter.requires_grad]
        device = self._accelerator.device
        have = torch.tensor([float(p.grad is not None) for p in wanted], device=device)
        some: Any = self._accelerator.reduce(have, "sum")
        moved = [parameter for parameter, any_has in zip(wanted, some, strict=True) if any_has]
        if not moved:
            return
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in moved]
        summed: Any = self._accelerator.reduce(torch.cat([g.reshape(-1) for g in grads]), "sum")
        sizes = [parameter.numel() for parameter in moved]
        for parameter, part in zip(moved, summed.split(sizes), strict=True):
            parameter.grad = part.view_as(parameter).clone()

    def agree(self, values: Sequence[float] | None, count: int) -> list[float]:
        """What the first process says, told to all; the others give None."""
        own = torch.zeros(count, dtype=torch.float64)
        if values is not None:
            own = torch.tensor(values, dtype=torch.float64)
        if self.count == 1:
            return own.tolist()
        summed: Any = self._accelerator.reduce(own.to(self._accelerator.device), "sum")
        told: list[float] = summed.cpu().tolist()
        return told

    def told(self, text: str | None) -> str:
        """A short text that the first process says, told to all; the others give None."""
        own = None if text is None else list(text.encode().ljust(_MOST_BYTES, b"\0"))
        told = bytes(int(byte) for byte in self.agree(own, _MOST_BYTES))
        return told.rstrip(b"\0").decode()


class _Gather(Function):
    """The rows of all processes; backward each takes the gradient of its own.

    All processes compute the same loss, so a process's own copy of it gives the whole gradient.
    """

    @staticmethod
    def forward(ctx: Any, accelerator: Accelerator, own: Tensor) -> Tensor:
        ctx.rows = len(own)
        ctx.rank = accelerator.process_index
        gathered: Tensor = accelerator.gather(own.contiguous())
        return gathered

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, grad[ctx.rank * ctx.rows : (ctx.rank + 1) * ctx.rows]


def leave() -> None:
    """End the talk between processes, where there was any, and forget the device."""
    # Accelerate remembers the first device for good, and a later run may ask for another.
    AcceleratorState._reset_state(reset_partial_state=True)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
