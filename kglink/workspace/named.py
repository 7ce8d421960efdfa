"""Names as they are given to methods: one, or several."""

from __future__ import annotations

from collections.abc import Iterable

from kglink.errors import UsageError


def named(names: str | Iterable[str]) -> tuple[str, ...]:
    """The names that were given, each once; a bare string is one name, not its letters."""
    if not isinstance(names, Iterable):
        hint = "One name is a str, several are a list of them; leave it out for the default."
        raise UsageError(f"names are given by the type {type(names).__name__}", hint=hint)
    return (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
