"""Compares a query with every vector, by NumPy: for small KBs.

Use it: kglink build --index myvendor/myplugin
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kglink.plugins import IndexSettings, Register, RowRange, hookimpl

if TYPE_CHECKING:
    from kglink.plugins import FloatArray, IntArray


class ScanIndex:
    """The rows as they are."""

    exact = True
    oversampling = 1

    def __init__(self, rows: FloatArray) -> None:
        self._rows = rows
        self.size = len(rows)

    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        """The best rows of some ranges, or of all."""
        import numpy as np

        allowed = np.zeros(self.size, dtype=bool)
        for start, stop in [(0, self.size)] if ranges is None else ranges:
            allowed[start:stop] = True
        scores = np.where(allowed, queries @ self._rows.T, -np.inf)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(scores, order, axis=1)
        missing = ((0, 0), (0, k - order.shape[1]))
        best = np.pad(best, missing, constant_values=-np.inf).astype(np.float32)
        order = np.pad(order, missing, constant_values=-1)
        return best, np.where(np.isinf(best), -1, order)

    def save(self, path: Path) -> None:
        """Write the rows."""
        import numpy as np

        with path.open("wb") as file:
            np.save(file, self._rows, allow_pickle=False)


class ScanBackend:
    """Builds and loads such indexes."""

    def __init__(self, settings: IndexSettings) -> None:
        pass

    def build(self, batches: Iterable[FloatArray], dim: int) -> ScanIndex:
        """Take all rows into memory."""
        import numpy as np

        return ScanIndex(np.concatenate([np.zeros((0, dim), np.float32), *batches]))

    def load(self, path: Path) -> ScanIndex:
        """Read what was saved."""
        import numpy as np

        return ScanIndex(np.load(path, allow_pickle=False))


@hookimpl
def register_index_backends(register: Register) -> None:
    """Offer the back end."""
    register(
        "myvendor/myplugin",
        ScanBackend,
        settings=IndexSettings,
        summary="A scan with NumPy, for small KBs",
    )
