"""Names as they are given to methods: one, or several."""

from __future__ import annotations

from collections.abc import Iterable


def named(names: str | Iterable[str]) -> tuple[str, ...]:
    """The names that were given, each once; a bare string is one name, not its letters."""
    return (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
