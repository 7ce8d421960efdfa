"""What all routes share: the workspace, what waits to be linked, and what runs beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from fastapi import Request

from kglink.config import CONFIG_FILE
from kglink.errors import StoreError
from kglink_doors.serve.batches import Batches
from kglink_doors.serve.limits import Limits
from kglink_doors.serve.metrics import Metrics

if TYPE_CHECKING:
    from kglink import Workspace
    from kglink_doors.serve.jobs import Jobs


@dataclass(frozen=True, slots=True)
class Served:
    """A workspace that is served."""

    workspace: Workspace
    batches: Batches
    jobs: Jobs
    metrics: Metrics
    limits: Limits


async def served(request: Request) -> Served:
    """What the server of a request serves; a dependency of routes."""
    here = cast("Served", request.app.state.served)
    if not (here.workspace.folder / CONFIG_FILE).is_file():
        hint = "Put it back, or end the server."
        raise StoreError(f"the workspace {here.workspace.folder.name!r} is gone", hint=hint)
    return here
