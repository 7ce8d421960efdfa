"""`kglink mcp --http`: who is answered, and how long a request may take to come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from socket import socket
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kglink_doors.listening import Limits, knows_token
from kglink_doors.serve.guard import LimitedBody, while_there
from kglink_doors.serve.running import run_app


def run_http(server: MCPServer[Any], listening: socket, token: str) -> None:
    """Answer on a socket until a signal comes; with a token, those who send it."""
    names = ("127.0.0.1", "localhost", "[::1]")
    checks = TransportSecuritySettings(
        # Other names could lead a web page to this machine (DNS rebinding). No page knows a token,
        # and a proxy has its own name.
        enable_dns_rebinding_protection=not token,
        allowed_hosts=[*names, *(f"{name}:*" for name in names)],
        allowed_origins=[f"http://{name}:*" for name in names],
    )
    inner = server.streamable_http_app(
        stateless_http=True, json_response=True, transport_security=checks
    )
    seconds, ending = Limits().seconds, threading.Event()
    app = while_asked(inner, seconds, ending.is_set)
    run_app(_with_token(app, token) if token else app, listening, seconds, ending)


def while_asked(app: ASGIApp, seconds: float, is_ending: Callable[[], bool]) -> ASGIApp:
    """The app, which waits ``seconds`` for a body, and stops when its client has gone."""

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        body = LimitedBody(receive, 0, seconds, is_ending, streamed=False)  # the SDK limits bytes
        has_come = asyncio.Event()

        async def hear() -> Message:
            if not has_come.is_set():
                message = await body()
                if not message.get("more_body", False):
                    has_come.set()
                if message["type"] == "http.request":
                    return message
            await asyncio.Event().wait()  # the client goes, and this is cancelled
            raise ClientDisconnect

        async def after_body() -> Message:
            await has_come.wait()
            return await receive()

        with suppress(ClientDisconnect):
            await while_there(after_body, app(scope, hear, send))

    return asked


def _with_token(app: ASGIApp, token: str) -> ASGIApp:
    """The app for those who send the token."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers") or ()).get(b"authorization", b"").decode("latin-1")
        if scope["type"] == "lifespan" or knows_token(given, token):
            await app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body"})

    return checked
