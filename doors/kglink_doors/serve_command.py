"""`kglink serve`: the workspace over HTTP, with a page."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from kglink.errors import UsageError
from kglink_cli.build import ensure_space
from kglink_cli.console import note
from kglink_cli.session import session_of
from kglink_doors.listening import Host, Limits, Port, TokenFrom, token_of

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?")


def serve(
    context: typer.Context,
    host: Host = "127.0.0.1",
    port: Port = 8017,
    token_from: TokenFrom = "",
    origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            help="A site whose pages may ask the reconciliation service; may be repeated.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Answer, and change nothing.")
    ] = False,
    body_mb: Annotated[
        float, typer.Option("--body-mb", help="The largest body of a request, in MB.", min=0.001)
    ] = 2.0,
    upload_mb: Annotated[
        float, typer.Option("--upload-mb", help="The largest file of a KB, in MB.", min=0.001)
    ] = 1000.0,
    seconds: Annotated[
        float, typer.Option("--seconds", help="The longest time for an answer.", min=0.1)
    ] = 60.0,
    waiting: Annotated[
        int, typer.Option("--waiting", help="Requests at work at once; more get 503.", min=1)
    ] = 64,
    log: Annotated[
        bool, typer.Option("--log", help="Write a line of JSON for each request.")
    ] = False,
) -> None:
    """Serve the workspace over HTTP: a page, and the commands as routes.

    The page links texts that are pasted, shows why, takes corrections, and reviews what KBs have
    in common. Programs find the routes in /openapi.json; OpenRefine reconciles columns with
    /reconcile. Ctrl-C answers what waits, and ends.
    """
    try:
        from kglink_doors.serve.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette"):
            raise
        raise UsageError(
            f"serving needs {error.name}", hint="Install it with: pip install 'kglink[serve]'"
        ) from error
    limits = Limits(
        body_mb=body_mb,
        upload_mb=upload_mb,
        seconds=seconds,
        waiting=waiting,
        token=token_of(token_from, host),
        origins=frozenset(map(_checked_origin, origin or ())),
        read_only=read_only,
    )
    with session_of(context).open() as workspace:
        if workspace.kbs():
            ensure_space(workspace, wait=False)
        run(workspace, host, port, limits, log=log, tell=lambda line: note("serving", line))


def _checked_origin(origin: str) -> str:
    if not _ORIGIN.fullmatch(origin):
        raise UsageError(
            f"--allow-origin {origin!r} is no origin of pages",
            hint="Write scheme and host, and the port: https://tables.example.org:8443",
        )
    return origin
