"""Settings and presets of the index back ends; reading them loads no faiss.

`docs/spaces.md` has what was measured with the presets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from kglink.plugins import IndexPreset, IndexSettings

#: What stands in a factory string for a number of lists that suits the rows.
LISTS = "{lists}"
#: Rows that a list's centre is learnt from at least, below which faiss warns.
_ROWS_PER_LIST = 39

FLAT_PRESETS: Mapping[str, IndexPreset] = {
    "flat": IndexPreset({}, "exact: every row in fp32, compared with every query"),
}

# Both HNSW presets are those of BLINK's Table 7. Its reduction to L2 distances is left out: for
# rows of one length it makes the same graph, and for others a worse one.
FACTORY_PRESETS: Mapping[str, IndexPreset] = {
    "hnsw-accurate": IndexPreset(
        {"factory": "HNSW128", "ef_construction": 200, "ef_search": 256},
        "a graph of 128 links, 256 nodes kept per query (BLINK's HNSW 1)",
    ),
    "hnsw-fast": IndexPreset(
        {"factory": "HNSW128", "ef_construction": 200, "ef_search": 128},
        "the same graph, 128 nodes kept per query (BLINK's HNSW 2)",
    ),
    "ivf": IndexPreset(
        {"factory": f"IVF{LISTS},Flat", "nprobe": 64},
        "rows in lists around centres, the 64 nearest lists looked into",
    ),
    "ivf-sq8": IndexPreset(
        {"factory": f"IVF{LISTS},SQ8", "nprobe": 64},
        "the same lists, each number of a row in one byte",
    ),
    "sq8": IndexPreset(
        {"factory": "SQ8"}, "every row compared, each number in one byte: a quarter of the size"
    ),
    "fp16": IndexPreset(
        {"factory": "SQfp16"}, "every row compared, each number in two bytes: half of the size"
    ),
}


def suitable_lists(rows: int) -> int:
    """How many lists this many rows are cut into: four times their root, where they are enough."""
    return max(1, min(4 * math.isqrt(rows), rows // _ROWS_PER_LIST))


class FlatSettings(IndexSettings):
    """The exact index has nothing to set."""

    @classmethod
    def presets(cls) -> Mapping[str, IndexPreset]:
        """The exact index by its short name."""
        return FLAT_PRESETS


class FactorySettings(IndexSettings):
    """Which faiss index to build, and how hard to search it."""

    search_only: ClassVar[frozenset[str]] = frozenset({"nprobe", "ef_search"})

    factory: str = Field(
        "SQfp16",
        max_length=80,  # faiss reads a string by recursion, and dies of a very long one
        pattern=r"^[^0-9]*([0-9]{1,7}[^0-9]+)*[0-9]{0,7}$",
        description="A faiss factory string: SQfp16, IVF1024,Flat, ...; `{lists}` in it stands "
        "for a number of lists that suits the rows.",
    )
    train_rows: int = Field(
        200_000, ge=1, description="Rows drawn at random to train an index that needs it."
    )
    nprobe: int = Field(32, ge=1, description="Lists that an IVF index looks into per query.")
    ef_search: int = Field(128, ge=1, description="Nodes that an HNSW index keeps per query.")
    ef_construction: int = Field(
        200, ge=1, description="Nodes that an HNSW index keeps per row while it is built."
    )

    @classmethod
    def presets(cls) -> Mapping[str, IndexPreset]:
        """Indexes worth choosing between."""
        return FACTORY_PRESETS
