"""Indexes that are worth choosing between, by name; `docs/spaces.md` has what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kglink.plugins import IndexPreset

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
