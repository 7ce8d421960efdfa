"""The processes of a run, one or many: rank, gather, reduce; a batch encoded by all of them.

Every process encodes its share of a batch, in parts that fit into memory, and sees the vectors of
all; all of them compute one and the same loss, each sends the gradients of its own vectors back,
and the gradients of the parameters are summed. So the loss is that of the whole batch, whatever
the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor
from torch.autograd import Function

from kglink.errors import PluginError
from kglink.models.bi_encoder import BiEncoder, Pair, ViewMode
from kglink.models.inputs import IdArray
from kglink.models.tower import join
from kglink.plugins import Encoded

Part = TypeVar("Part")
#: What a part is encoded as: tensors, those of a floating type with a gradient.
Outputs = tuple[Tensor, ...]

#: While one process looks for hard negatives the others wait; that may take hours.
_PATIENCE = timedelta(hours=24)
#: Longest text of a broadcast, such as the name of a run.
_MOST_BYTES = 512


class Team:
    """Rank, gather and reduce, for one of the processes of a run."""

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
        """Wait until all processes are here."""
        self._accelerator.wait_for_everyone()

    def share(self, count: int, rank: int | None = None) -> range:
        """The share of ``count`` texts of a process."""
        rank = self.rank if rank is None else rank
        return range(count * rank // self.count, count * (rank + 1) // self.count)

    def gather(self, own: Encoded, count: int) -> Encoded:
        """Gather all ``count`` texts of a batch; ``own`` is this process's share."""
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
        """Sum the gradients over all processes; parameters without any keep none."""
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
        """Broadcast numbers from the first process; the others give None."""
        own = torch.zeros(count, dtype=torch.float64)
        if values is not None:
            own = torch.tensor(values, dtype=torch.float64)
        if self.count == 1:
            return own.tolist()
        summed: Any = self._accelerator.reduce(own.to(self._accelerator.device), "sum")
        agreed: list[float] = summed.cpu().tolist()
        return agreed

    def told(self, text: str | None) -> str:
        """Broadcast a short text from the first process; the others give None."""
        own = None if text is None else list(text.encode().ljust(_MOST_BYTES, b"\0"))
        shared = bytes(int(byte) for byte in self.agree(own, _MOST_BYTES))
        return shared.rstrip(b"\0").decode()


class _Gather(Function):
    """Gather the rows of all processes; backward, each keeps the gradient of its own.

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
    """Close the process group, if there is one, and forget the device."""
    # Accelerate remembers the first device for good, and a later run may ask for another.
    AcceleratorState._reset_state(reset_partial_state=True)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class Texts(NamedTuple):
    """Texts, and the domain of each where a transformation needs it."""

    ids: Sequence[IdArray]
    domains: Sequence[int]

    def part(self, rows: range) -> Texts:
        """Some of them."""
        domains = [self.domains[row] for row in rows] if self.domains else []
        return Texts([self.ids[row] for row in rows], domains)


#: The loss of a batch as it is (L), or as the transformation makes it (L').
PairLoss = Callable[[Pair], Tensor]


def add_gradients(
    model: BiEncoder,
    team: Team,
    sides: tuple[Texts, Texts],
    loss_of: PairLoss,
    *,
    view: ViewMode,
    micro_batch: int,
    weight: float,
) -> list[float]:
    """Encode both sides, each process its share; add the gradients of ``weight`` times the losses.

    Returns these, one for each view.
    """
    mentions, entities = (side.part(team.share(len(side.ids))) for side in sides)
    parts = _parts(mentions, entities, micro_batch)
    said: list[float] = []

    def encode(part: tuple[Texts, Texts]) -> Outputs:
        """All views of both sides as one flat tuple; missing ones are empty tensors."""
        ids, domains = zip(*part, strict=True)
        pairs: list[Pair] = model(*ids, view=view, domains=domains)
        empty = Encoded(torch.empty(0), torch.empty(0, dtype=torch.bool))
        return tuple(value for pair in pairs for side in pair for value in side or empty)

    def gathered(outputs: Sequence[Outputs], at: int, count: int) -> Encoded | None:
        """One side of a view, of the whole batch."""
        own = [Encoded(part[at], part[at + 1]) for part in outputs if part[at].numel()]
        if not own:  # all of them may be those of other processes
            states = torch.zeros(0, 1, model.dim, device=model.device)
            own = [Encoded(states, torch.zeros(0, 1, dtype=torch.bool, device=model.device))]
        return team.gather(join(own), count) if count else None

    def whole(outputs: list[Outputs]) -> Tensor:
        losses = [
            loss_of(Pair(*(gathered(outputs, at + 2 * n, len(s.ids)) for n, s in enumerate(sides))))
            for at in range(0, len(outputs[0]), 4)
        ]
        said[:] = [float(loss.detach()) * weight for loss in losses]
        return torch.stack(losses).sum() * weight

    if len(parts) == 1:
        backward(whole([encode(parts[0])]))
    else:
        cached_backward(encode, parts, whole)
    return said


def _parts(mentions: Texts, entities: Texts, most: int) -> list[tuple[Texts, Texts]]:
    """Cut both sides into equal parts of at most ``most`` texts; 0: one part."""
    texts = len(mentions.ids) + len(entities.ids)
    count = -(-texts // most) if most else 1

    def cut(side: Texts, at: int) -> Texts:
        size = len(side.ids)
        return side.part(range(size * at // count, size * (at + 1) // count))

    parts = [(cut(mentions, at), cut(entities, at)) for at in range(max(1, count))]
    return [part for part in parts if part[0].ids or part[1].ids] or parts[:1]


def cached_backward(
    encode: Callable[[Part], Outputs],
    parts: Sequence[Part],
    loss_of: Callable[[list[Outputs]], Tensor],
) -> Tensor:
    """Add the gradients of ``loss_of`` over all parts to the parameters; returns the loss.

    Large contrastive batches in little memory (Gao et al., 2021): all parts are encoded without
    a graph; the loss on their vectors gives each vector's gradient; then one part after the other
    is encoded again, with a graph and the same dropout, and takes its gradients back.
    ``loss_of`` gets plain tuples in the order of ``parts``.
    """
    states, outputs = [], []
    for part in parts:
        states.append(_random_state())
        with torch.no_grad():
            made = encode(part)
        outputs.append(tuple(one.detach().requires_grad_(one.is_floating_point()) for one in made))
    loss = loss_of(outputs)
    backward(loss)
    after = _random_state()
    for number, part in enumerate(parts):
        _restore(states[number])
        graded = [
            (output, leaf.grad)
            for output, leaf in zip(encode(part), outputs[number], strict=True)
            if leaf.grad is not None and output.requires_grad
        ]
        if graded:
            torch.autograd.backward([one for one, _ in graded], [grad for _, grad in graded])
    _restore(after)
    return loss.detach()


def backward(loss: Tensor) -> None:
    """Run a loss backward, but where it stands on no parameter: this process has no texts."""
    if not loss.requires_grad:
        return
    try:
        torch.autograd.backward(loss)
    except RuntimeError as error:
        if "inplace operation" not in str(error):
            raise
        raise PluginError(
            "the scorer or the objective changes in place what it is given",
            hint="A plugin of training makes new tensors: scores.clone() before scores.zero_().",
        ) from error


def _random_state() -> list[Tensor]:
    """The generators that dropout draws from."""
    states = [torch.get_rng_state()]
    return [*states, *torch.cuda.get_rng_state_all()] if torch.cuda.is_available() else states


def _restore(states: Sequence[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state_all(list(states[1:]))
