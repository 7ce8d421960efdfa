"""Names and folders as they are given to commands and methods."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kglink.errors import ConfigError, UsageError


def named(names: str | Iterable[str]) -> tuple[str, ...]:
    """The names that were given, each once; a bare string is one name, not its letters."""
    if not isinstance(names, Iterable):
        hint = "One name is a str, several are a list of them; leave it out for the default."
        raise UsageError(f"names are given by the type {type(names).__name__}", hint=hint)
    return (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))


def expanded(folder: Path) -> Path:
    """The whole path, ``~`` written out."""
    try:
        return folder.expanduser().resolve()
    except RuntimeError as error:
        raise ConfigError(f"{folder}: there is no such user") from error
