"""The application, all routes around one workspace behind the guard; and running it."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Route

from kglink import Workspace
from kglink.errors import KglinkError
from kglink.workspace.memory import learn_corrections
from kglink_doors.listening import Limits, address, listen
from kglink_doors.serve import answers, changes, reconcile
from kglink_doors.serve.batches import Batches
from kglink_doors.serve.errors import PASSING, error_shape, first_error, json_error, status_of
from kglink_doors.serve.guard import Guard, Refused
from kglink_doors.serve.jobs import Jobs
from kglink_doors.serve.running import run_app
from kglink_doors.serve.served import Learner, Metrics, Served
from kglink_plugins.exporters.html import page_style

#: How the description says that a request is refused.
_WRONG: dict[str, Any] = {
    "description": "What is wrong, and the fix.",
    "content": {"application/json": {"example": {"error": "unknown KB 'x'", "fix": "GET /kbs"}}},
}
#: Threads besides those of requests.
_SPARE = 8


def build_app(
    workspace: Workspace,
    limits: Limits,
    *,
    log: bool = False,
    is_ending: Callable[[], bool] = lambda: False,
) -> FastAPI:
    """The application that serves a workspace."""
    metrics = Metrics()

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        """Begin with a linker that is ready; end when all that waits has its answer."""
        # No request that was let in waits for a thread.
        to_thread.current_default_thread_limiter().total_tokens = limits.waiting + _SPARE
        batches = Batches(workspace, limits.waiting)
        work = Jobs(workspace, read_only=limits.read_only)
        learner = Learner(workspace)
        app.state.served = Served(workspace, batches, work, metrics, limits, learner)
        try:
            yield
        finally:
            await run_in_threadpool(work.close)
            await run_in_threadpool(learner.close)
            await run_in_threadpool(batches.close)

    app = FastAPI(
        title="kglink",
        version=version("kglink"),
        description="Links text to several knowledge bases at once.",
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        responses={"default": _WRONG},
        lifespan=life,
    )
    app.add_middleware(Guard, limits=limits, metrics=metrics, log=log, is_ending=is_ending)
    for module in (answers, changes, reconcile):
        app.include_router(module.router)
    _add_states(app)
    page = files("kglink_doors.serve") / "page"
    style = page_style() + (page / "page.css").read_text(encoding="utf-8")
    contents = {
        "/": ("text/html", (page / "index.html").read_bytes()),
        "/page.css": ("text/css", style.encode()),
        "/page.js": ("text/javascript", (page / "page.js").read_bytes()),
    }
    for path, (kind, content) in contents.items():
        response = Response(content, media_type=f"{kind}; charset=utf-8")
        app.router.routes.append(Route(path, response, methods=["GET"], include_in_schema=False))
    for error in _ERRORS:
        app.add_exception_handler(error, _answered)
    return app


def _add_states(app: FastAPI) -> None:
    @app.get("/health", tags=["server"])
    async def health() -> dict[str, str]:
        """Whether the server lives."""
        return {"status": "alive", "version": version("kglink")}

    @app.get("/ready", tags=["server"])
    def ready(here: answers.Here) -> Response:
        """Whether texts are linked at once: space and store can be read."""
        space = here.workspace.space()
        here.workspace.store.state()
        return answers.json_response({"status": "ready", "kbs": list(space.kbs())})

    @app.get("/metrics", tags=["server"])
    def metrics(here: answers.Here) -> Response:
        """What the server counts, for Prometheus."""
        running = sum(one.state == "running" for one in here.jobs.all())
        text = here.metrics.text(waiting_texts=len(here.batches), running_jobs=running)
        return Response(text, media_type="text/plain; version=0.0.4")


#: What `_answered` answers; the guard answers what is unexpected.
_ERRORS = (KglinkError, RequestValidationError, HTTPException, TimeoutError)


async def _answered(request: Request, error: Exception) -> Response:
    """An error as the sender of a request reads it: what is wrong, and the fix."""
    headers: Mapping[str, str] | None = None
    match error:
        case Refused():
            return error.response
        case KglinkError():
            status, shape = status_of(error), error_shape(error)
            headers = {"retry-after": "1"} if isinstance(error, PASSING) else None
        case RequestValidationError():
            status, shape = 422, _validation_shape(error, request)
        case HTTPException():
            status, headers = error.status_code, error.headers
            fix = "GET /openapi.json lists what there is."  # no such route or method
            what = f"{request.method} {request.url.path}: {error.detail}"
            shape = {"error": what, "fix": fix}
            if error.__cause__ is not None:  # FastAPI could not read the body
                shape = error_shape(json_error(error.__cause__))
        case _:
            what = f"it took over {request.app.state.served.limits.seconds:g} s"
            fix = "Send less at once; --seconds raises the limit."
            status, shape = 504, {"error": what, "fix": fix}
    return answers.json_response(shape, status, headers)


def _validation_shape(error: RequestValidationError, request: Request) -> dict[str, Any]:
    first = error.errors()[0]
    what = first_error(error, "the request")
    if first["type"] == "json_invalid":
        what += f" ({first['ctx']['error']})"
    fix = f"GET /openapi.json describes {request.method} {request.scope['route'].path_format}."
    if first["loc"] == ("body",) and "json" not in request.headers.get("content-type", ""):
        what, fix = "the body is not sent as JSON", "Send content-type: application/json."
    return {"error": what, "fix": fix}


#: Seconds after which a thread that links lets the one that reads requests run: it reads them one
#: system call at a time, and after each would wait for Python's usual 5 ms.
_SWITCH = 0.0005


def run(
    workspace: Workspace,
    host: str,
    port: int,
    limits: Limits,
    *,
    log: bool,
    tell: Callable[[str], None],
) -> None:
    """Serve a workspace; ``tell`` gets the address once it listens."""
    sys.setswitchinterval(_SWITCH)
    if not limits.read_only:  # what a killed server stored and did not learn
        learn_corrections(workspace)
    listening = listen(host, port)
    ending = threading.Event()
    app = build_app(workspace, limits, log=log, is_ending=ending.is_set)
    tell(address(listening, host))
    run_app(app, listening, limits.seconds, ending)
