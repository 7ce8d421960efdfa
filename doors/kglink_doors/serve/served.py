"""What all routes share: the workspace, what waits to be linked, and what runs beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

from anyio import to_thread
from fastapi import Request

from kglink import Workspace
from kglink.config import CONFIG_FILE
from kglink.errors import StoreError
from kglink_doors.serve.batches import Batches
from kglink_doors.serve.jobs import Jobs
from kglink_doors.serve.limits import Limits
from kglink_doors.serve.metrics import Metrics

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Served:
    """A workspace that is served."""

    workspace: Workspace
    batches: Batches
    jobs: Jobs
    metrics: Metrics
    limits: Limits

    async def in_time(self, work: Callable[[], T]) -> T:
        """What work in a thread gives; `TimeoutError` where it takes longer than a request may.

        The thread then goes on, and nobody waits for it.
        """
        thread = to_thread.run_sync(work, abandon_on_cancel=True)
        return await asyncio.wait_for(thread, self.limits.seconds)

    def within(self, items: Iterable[T]) -> Iterator[T]:
        """The items; `TimeoutError` once the time of a request is over, which ends their reader."""
        until = time.monotonic() + self.limits.seconds
        for one in items:
            if time.monotonic() > until:
                raise TimeoutError
            yield one


async def served(request: Request) -> Served:
    """What the server of a request serves; a dependency of routes."""
    here = cast("Served", request.app.state.served)
    if not (here.workspace.folder / CONFIG_FILE).is_file():
        hint = "Put it back, or end the server."
        raise StoreError(f"the workspace {here.workspace.folder.name!r} is gone", hint=hint)
    return here
