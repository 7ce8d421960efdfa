"""What all routes share: the workspace, what waits to be linked, and what runs beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fastapi import Request

from kglink.errors import (
    KglinkError,
    ShrinkError,
    SpaceBusyError,
    StoreError,
    UnknownNameError,
    UsageError,
)
from kglink_doors.serve.batches import Batches, BusyError
from kglink_doors.serve.limits import Limits
from kglink_doors.serve.metrics import Metrics

if TYPE_CHECKING:
    from kglink import Workspace
    from kglink_doors.serve.jobs import Jobs

#: The status of each error, the first that fits.
_STATUS: tuple[tuple[type[KglinkError], int], ...] = (
    (UnknownNameError, 404),
    (UsageError, 400),
    (ShrinkError, 409),
    (SpaceBusyError, 503),
    (BusyError, 503),
    (StoreError, 503),
)


@dataclass(frozen=True, slots=True)
class Served:
    """A workspace that is served."""

    workspace: Workspace
    batches: Batches
    jobs: Jobs
    metrics: Metrics
    limits: Limits


def served(request: Request) -> Served:
    """What the server of a request serves; a dependency of routes."""
    return cast("Served", request.app.state.served)


def status_of(error: KglinkError) -> int:
    """The HTTP status that says what an error is."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def error_shape(error: KglinkError) -> dict[str, Any]:
    """An error as every route answers it."""
    return {"error": error.message, "fix": error.hint}
