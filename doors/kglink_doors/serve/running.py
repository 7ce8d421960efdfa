"""Runs the application on a socket until it is told to end."""

from __future__ import annotations

import sys
from collections.abc import Callable

import uvicorn

from kglink import Workspace
from kglink_doors.listening import address, listen
from kglink_doors.serve.app import build_app
from kglink_doors.serve.limits import Limits

#: Seconds that requests at work have left once the server is told to end.
_GRACE = 30
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
    listening = listen(host, port)
    config = uvicorn.Config(
        build_app(workspace, limits, log=log),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE,
        h11_max_incomplete_event_size=64 * 1024,
    )
    tell(address(listening, host))
    with listening:
        uvicorn.Server(config).run(sockets=[listening])
