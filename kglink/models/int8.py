"""Linear layers in whole numbers of 8 bits, for CPUs: weights and inputs are rounded, sums are not.

The weights have a scale for each output, the inputs one for each token. Columns that the layer norm
before makes large are divided, and their weights multiplied, before both are rounded: SmoothQuant
(Xiao et al. 2023), with the norm's own parameters in the place of samples.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kglink.models.hardware import cpu_flags

#: Instruction sets that add products of bytes without overflow; others get weights of 7 bits.
_EXACT = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})
#: A normal number is rarely larger.
_LARGE = 3.0
_LEAST = 1e-5


class Int8Linear:
    """``states @ weight.T + bias``; ``norm`` is the weight and bias of the norm before it."""

    def __init__(
        self, weight: Tensor, bias: Tensor, norm: tuple[Tensor, Tensor] | None = None
    ) -> None:
        weight, self._bias = weight.float(), bias.float()
        self._columns: Tensor | None = None
        if norm is not None:
            scale, shift = norm
            inputs = _LARGE * scale.float().abs() + shift.float().abs()
            ratio = inputs / weight.abs().amax(0).clamp_min(_LEAST)
            columns = ratio.clamp_min(_LEAST).sqrt()
            columns /= columns.mean()
            weight, self._columns = weight * columns, 1 / columns
        most = 63 if _EXACT.isdisjoint(cpu_flags()) else 127
        scales = weight.abs().amax(1).clamp_min(_LEAST) / most
        self._weight = (weight / scales.unsqueeze(1)).round().to(torch.int8).t()
        self._scales = scales / 127

    def __call__(self, states: Tensor) -> Tensor:
        """The product in fp32."""
        states = states if self._columns is None else states * self._columns
        largest = states.abs().amax(1, keepdim=True).clamp_min(_LEAST)
        rounded = (states * (127 / largest)).round_().to(torch.int8)
        sums = torch._int_mm(rounded, self._weight).float()
        return torch.addcmul(self._bias, sums.mul_(self._scales), largest)
