"""The rows of an exact index on a GPU, which compares all of them with all queries of a batch.

It answers by fp32 products, as faiss does on the CPU. `FlatIndex` computes the scores of what is
found again, so its answers do not depend on where the rows were compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kglink.arrays import FloatArray, IntArray
from kglink.plugins import RowRange

#: Scores that are held on the GPU at once: 512 MiB of them.
_SCORES = 1 << 27
#: Rows copied at a time: a mapped file is not read as a whole.
_COPIED = 1 << 18
#: The share of a GPU's free memory that rows may take; the encoder needs the rest.
_SHARE = 0.5


class GpuRows(NamedTuple):
    """Rows of an index, an (n, dim) matrix in fp32."""

    rows: Tensor

    @classmethod
    def of(cls, rows: FloatArray, device: torch.device) -> GpuRows | None:
        """Copy the rows to a device; None: they do not fit."""
        if device.type == "cuda" and rows.nbytes > _SHARE * torch.cuda.mem_get_info(device)[0]:
            return None
        copied = torch.empty(rows.shape, dtype=torch.float32, device=device)
        for first in range(0, len(rows), _COPIED):
            part = np.array(rows[first : first + _COPIED])
            copied[first : first + len(part)] = torch.from_numpy(part)
        return cls(copied)

    def nearest(
        self, queries: FloatArray, count: int, spans: Sequence[RowRange]
    ) -> tuple[FloatArray, IntArray] | None:
        """The ``count`` rows of these ranges with the highest scores, for each query.

        None: the memory of the GPU is full.
        """
        try:
            return self._nearest(queries, count, spans)
        except torch.OutOfMemoryError:
            return None

    def _nearest(
        self, queries: FloatArray, count: int, spans: Sequence[RowRange]
    ) -> tuple[FloatArray, IntArray]:
        asked = torch.from_numpy(queries).to(self.rows.device)
        best = asked.new_full((len(asked), 0), -torch.inf)
        places = torch.zeros(best.shape, dtype=torch.int64, device=best.device)
        size = max(1, _SCORES // len(asked))
        with torch.inference_mode(), _full_precision():
            for start, stop in spans:
                for first in range(start, stop, size):
                    part = self.rows[first : min(first + size, stop)]
                    found = torch.topk(asked @ part.T, min(count, len(part)))
                    best = torch.cat([best, found.values], dim=1)
                    places = torch.cat([places, found.indices + first], dim=1)
                    if best.shape[1] > count:
                        best, order = torch.topk(best, count)
                        places = places.gather(1, order)
        best, order = best.sort(descending=True)
        return best.cpu().numpy(), places.gather(1, order).cpu().numpy()


def device_in_use() -> torch.device | None:
    """The GPU that this process computes on, if it does: that of the encoder."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch has no types here
        return None
    return torch.device("cuda", torch.cuda.current_device())


@contextmanager
def _full_precision() -> Iterator[None]:
    """Products of fp32 numbers are not rounded to TF32, whatever the program has set."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
