"""Linear layers in whole numbers of 8 bits, for CPUs: weights and inputs are rounded, sums are not.

The weights have a scale for each output, the inputs one for each token. Columns that the layer norm
before makes large are divided, and their weights multiplied, before both are rounded: SmoothQuant
(Xiao et al. 2023), with the norm's own parameters in the place of samples.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kglink.processor import cpu_flags

#: Instruction sets that add products of bytes without overflow; others get weights of 7 bits.
_EXACT = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})
#: A normal number is rarely larger.
_LARGE = 3.0
_LEAST = 1e-5


def int8_linear(
    weight: Tensor, bias: Tensor, norm: tuple[Tensor, Tensor] | None = None
) -> Callable[[Tensor], Tensor]:
    """``states @ weight.T + bias`` in fp32; ``norm`` is weight and bias of the norm before it."""
    weight, bias = weight.float(), bias.float()
    divided: Tensor | None = None
    if norm is not None:
        scale, shift = norm
        inputs = _LARGE * scale.float().abs() + shift.float().abs()
        ratio = inputs / weight.abs().amax(0).clamp_min(_LEAST)
        columns = ratio.clamp_min(_LEAST).sqrt()
        columns /= columns.mean()
        weight, divided = weight * columns, 1 / columns
    most = 63 if _EXACT.isdisjoint(cpu_flags()) else 127
    scales = weight.abs().amax(1).clamp_min(_LEAST) / most
    whole = (weight / scales.unsqueeze(1)).round().to(torch.int8).t()
    scales = scales / 127

    def product(states: Tensor) -> Tensor:
        states = states if divided is None else states * divided
        largest = states.abs().amax(1, keepdim=True).clamp_min(_LEAST)
        rounded = (states * (127 / largest)).round_().to(torch.int8)
        sums = torch._int_mm(rounded, whole).float()
        return torch.addcmul(bias, sums.mul_(scales), largest)

    return product
