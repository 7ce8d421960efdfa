"""What counts as found by us, whatever people said of it afterwards."""

from __future__ import annotations

from kglink.records import Overlap

#: Evidence that somebody else's mapping brought, and no search of ours.
_TOLD = frozenset({"mapping"})


def was_found(overlap: Overlap) -> bool:
    """Whether a search found the pair; a pair that is only judged has no evidence of its own."""
    return bool(overlap.evidence.keys() - _TOLD)
