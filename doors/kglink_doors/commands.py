"""`kglink serve` and `kglink mcp`: the workspace over HTTP with a page, and for agents by MCP."""

from __future__ import annotations

import os
import re
import sys

import typer
from typer import Option

from kglink.errors import UsageError
from kglink_cli.build import ensure_space
from kglink_cli.console import note
from kglink_cli.interrupts import stop_at_once
from kglink_cli.session import open_workspace, refuse_ignored
from kglink_doors.listening import Host, Limits, Port, TokenFrom, address, listen, token_of

_HOST, _MCP_PORT = "127.0.0.1", 8765
#: Who asks waits for no processes to start.
_HERE = {"link.workers": 1}
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?")


def serve(
    context: typer.Context,
    host: Host = _HOST,
    port: Port = 8017,
    token_from: TokenFrom = "",
    origin: list[str] | None = Option(
        None,
        "--allow-origin",
        help="A site whose pages may use the reconciliation service; may be repeated.",
    ),
    read_only: bool = Option(False, "--read-only", help="Answer, but change nothing."),
    body_mb: float = Option(2.0, help="The largest body of a request, in MB.", min=0.001),
    upload_mb: float = Option(1000.0, help="The largest file of a KB, in MB.", min=0.001),
    seconds: float = Option(60.0, help="The longest time for an answer.", min=0.1),
    waiting: int = Option(64, help="Requests answered at once; more get status 503.", min=1),
    log: bool = Option(False, "--log", help="Write a line of JSON for each request."),
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
        hint = "Install it with: pip install 'kglink[serve]'"
        raise UsageError(f"serving needs {error.name}", hint=hint) from error
    for one in origin or ():
        if not _ORIGIN.fullmatch(one):
            hint = "Write scheme and host, and the port: https://tables.example.org:8443"
            raise UsageError(f"--allow-origin {one!r} is no origin of pages", hint=hint)
    limits = Limits(
        body_mb=body_mb,
        upload_mb=upload_mb,
        seconds=seconds,
        waiting=waiting,
        token=token_of(token_from, host),
        origins=frozenset(origin or ()),
        read_only=read_only,
    )
    with open_workspace(context, _HERE) as workspace:
        if workspace.kbs():
            ensure_space(workspace, wait=False)
        run(workspace, host, port, limits, log=log, tell=lambda line: note("serving", line))


def mcp(
    context: typer.Context,
    http: bool = Option(False, "--http", help="Use HTTP instead of standard input and output."),
    host: Host = _HOST,
    port: Port = _MCP_PORT,
    token_from: TokenFrom = "",
) -> None:
    """Let agents ask this workspace by MCP: link texts, search and show entities."""
    try:
        from kglink_doors.mcp_tools import make_server
    except ImportError as error:
        hint = "pip install 'kglink[mcp]'"
        raise UsageError("kglink mcp needs a package that is not installed", hint=hint) from error
    if not http:
        said = {"--host": host != _HOST, "--port": port != _MCP_PORT, "--token-from": token_from}
        refuse_ignored("without --http", said)
    token = token_of(token_from, host) if http else ""
    with open_workspace(context, _HERE) as workspace:
        server = make_server(workspace)
        if http:
            from kglink_doors.mcp_http import run_http

            listening = listen(host, port)
            note("mcp", f"{address(listening, host)}/mcp")
            run_http(server, listening, token)
        else:
            from kglink_doors.mcp_stdio import run_stdio

            # The command line keeps standard output under another descriptor than the transport
            # takes it from; all else, such as Python's ``print``, goes to standard error.
            kept, own = sys.stdout, sys.__stdout__
            if own is not None and kept is not own:
                os.dup2(kept.fileno(), own.fileno())
                sys.stdout = own
            stop_at_once()  # a line is waited for in a thread
            run_stdio(server)
