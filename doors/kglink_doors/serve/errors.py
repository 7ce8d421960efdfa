"""Errors as the server answers them: a status, what is wrong, and the fix."""

from __future__ import annotations

from typing import Any

from kglink.errors import (
    KglinkError,
    ShrinkError,
    SourceError,
    SpaceError,
    StoreError,
    UnknownNameError,
    UsageError,
)


class BusyError(KglinkError):
    """More waits than the server bears."""


class TakenError(KglinkError):
    """A name that something has already."""


#: The status of each error, the first that fits.
_STATUS: tuple[tuple[type[KglinkError], int], ...] = (
    (UnknownNameError, 404),
    (UsageError, 400),
    (SourceError, 400),
    (ShrinkError, 409),
    (TakenError, 409),
    (SpaceError, 503),
    (BusyError, 503),
    (StoreError, 503),
)


def status_of(error: KglinkError) -> int:
    """The HTTP status that says what an error is."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def error_shape(error: KglinkError) -> dict[str, Any]:
    """An error as every route answers it."""
    return {"error": error.message, "fix": error.hint}
