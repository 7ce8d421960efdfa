"""Runs the application on a socket until it is told to end."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import uvicorn

from kglink.errors import UsageError
from kglink_doors.serve.app import build_app

if TYPE_CHECKING:
    from kglink import Workspace
    from kglink_doors.serve.limits import Limits

#: Seconds that requests at work have left once the server is told to end.
_GRACE = 30
_BACKLOG = 512


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
    listening = _socket(host, port)
    shown = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        build_app(workspace, limits, log=log),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE,
        h11_max_incomplete_event_size=64 * 1024,
    )
    tell(f"http://{shown}:{listening.getsockname()[1]}")
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def _socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)  # who comes before the application is ready waits
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}, port {port}: {error.strerror}",
            hint="Another port: --port 8018; a free one: --port 0.",
        ) from error
    return listening
