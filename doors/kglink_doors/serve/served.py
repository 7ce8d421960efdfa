"""What all routes share: the workspace, what waits to be linked, and what is counted."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

from anyio import to_thread
from fastapi import Request
from fastapi.dependencies.models import Dependant

from kglink import Workspace
from kglink.config import CONFIG_FILE
from kglink.errors import StoreError, UnknownNameError, UsageError
from kglink.text.printable import printable_line
from kglink.workspace.memory import learn_corrections
from kglink_doors.listening import Limits
from kglink_doors.serve.batches import Batches
from kglink_doors.serve.errors import patiently
from kglink_doors.serve.jobs import Jobs

#: Upper bounds of a request's seconds.
_BOUNDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})


class Metrics:
    """Requests by route and status, how long they took, and what was linked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._within: Counter[tuple[str, float]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self.texts = 0
        self.mentions = 0

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that is done."""
        method = method if method in _METHODS else "OTHER"
        with self._lock:
            self._requests[method, route, status] += 1
            self._seconds[route] += seconds
            for bound in (*_BOUNDS, float("inf")):
                self._within[route, bound] += seconds <= bound

    def linked(self, texts: int, mentions: int) -> None:
        """Count texts that were linked."""
        with self._lock:
            self.texts += texts
            self.mentions += mentions

    def text(self, **gauges: float) -> str:
        """All of it, with some values as they are now."""
        with self._lock:
            lines = ["# TYPE kglink_requests_total counter"]
            lines += [
                f'kglink_requests_total{{method="{method}",route="{route}",status="{status}"}} {n}'
                for (method, route, status), n in sorted(self._requests.items())
            ]
            lines.append("# TYPE kglink_request_seconds histogram")
            for route in sorted(self._seconds):
                for bound in (*_BOUNDS, float("inf")):
                    name = "+Inf" if bound == float("inf") else f"{bound:g}"
                    labels = f'route="{route}",le="{name}"'
                    count = self._within[route, bound]
                    lines.append(f"kglink_request_seconds_bucket{{{labels}}} {count}")
                total = f"{self._seconds[route]:.6f}"
                lines.append(f'kglink_request_seconds_sum{{route="{route}"}} {total}')
                lines.append(f'kglink_request_seconds_count{{route="{route}"}} {count}')
            for name, value in (("texts", self.texts), ("mentions", self.mentions)):
                lines += [f"# TYPE kglink_{name}_total counter", f"kglink_{name}_total {value}"]
            for name, gauge in gauges.items():
                lines += [f"# TYPE kglink_{name} gauge", f"kglink_{name} {gauge:g}"]
        return "\n".join(lines) + "\n"


class Learner:
    """Learns corrections beside the requests: those that come meanwhile are learnt together."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._pool = ThreadPoolExecutor(1, "learner")
        self._lock = threading.Lock()
        self._next: Future[None] | None = None
        """The learning that has not begun: whoever corrects now is in it."""

    def learn(self, *, wait: float) -> bool:
        """Learn all corrections; True if that ends within ``wait`` seconds."""
        with self._lock:
            learning = self._next = self._next or self._pool.submit(self._learn)
        try:
            learning.result(wait)
        except TimeoutError:
            learning.add_done_callback(_tell_failure)
            return False
        return True

    def _learn(self) -> None:
        with self._lock:
            self._next = None
        patiently(partial(learn_corrections, self._workspace))

    def close(self) -> None:
        """End when the corrections are learnt."""
        self._pool.shutdown()


def _tell_failure(learning: Future[None]) -> None:
    """Say what kept corrections from being learnt: nobody waits for them any more."""
    if error := learning.exception():
        sys.stderr.write(f"error  corrections are not learnt yet: {printable_line(str(error))}\n")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Served:
    """A workspace that is served."""

    workspace: Workspace
    batches: Batches
    jobs: Jobs
    metrics: Metrics
    limits: Limits
    learner: Learner
    adding: threading.Lock = field(default_factory=threading.Lock)
    """Entities are added one after the other."""

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


def _parameters(dependant: Dependant) -> Iterator[str]:
    yield from (one.alias for one in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _parameters(inner)


async def known_parameters(request: Request) -> None:
    """Refuse what the query names and the route does not know; a dependency of routes."""
    route = request.scope["route"]
    known = list(_parameters(route.dependant))
    for name in request.query_params:
        if name not in known:
            error = UnknownNameError(f"parameter of {route.path}", name, known)
            raise UsageError(error.message, hint=error.hint)  # no 404: the route is there


async def served(request: Request) -> Served:
    """What the server of a request serves; a dependency of routes."""
    here = cast("Served", request.app.state.served)
    if not (here.workspace.folder / CONFIG_FILE).is_file():
        hint = "Put it back, or end the server."
        raise StoreError(f"the workspace {here.workspace.folder.name!r} is gone", hint=hint)
    return here
