"""Token ids of texts in mapped tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kglink.files.tables import RowTable, RowWriter
from kglink.models.tokenise import IdArray


def token_table(stem: Path) -> RowTable:
    """A table of token ids."""
    return RowTable(stem, np.int32)


def token_writer(stem: Path) -> RowWriter:
    """A writer of token ids."""
    return RowWriter(stem, np.int32)


def as_ids(rows: Iterable[npt.NDArray[Any]]) -> list[IdArray]:
    """Rows as token ids."""
    return [np.asarray(row, np.int32) for row in rows]
