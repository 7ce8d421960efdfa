"""How many neighbours each entity may propose."""

from __future__ import annotations


def quotas(k: int, small: int, large: int) -> tuple[int, int]:
    """How many an entity of the smaller KB proposes, and one of the larger KB.

    Both KBs together propose at most ``2 * k`` pairs for each entity of the smaller one: of a
    large KB most entities have no counterpart in a small one.
    """
    return k, k * small // large if large else 0
