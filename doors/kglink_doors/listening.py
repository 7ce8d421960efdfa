"""Where a server listens, and the token that it asks for where other machines can reach it."""

from __future__ import annotations

import hmac
import os
import socket
from typing import Annotated

import typer

from kglink.errors import UsageError

Host = Annotated[str, typer.Option("--host", help="Address to listen on.")]
Port = Annotated[
    int, typer.Option("--port", help="Port to listen on; 0: a free one.", min=0, max=65_535)
]
TokenFrom = Annotated[
    str,
    typer.Option(
        "--token-from",
        help="Environment variable with the token that whoever asks must send; needed where other "
        "machines can ask.",
    ),
]

#: Names of this machine, which no page of another site can have.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: Letters of a token that nobody guesses.
_LEAST_TOKEN = 16
_BACKLOG = 512


def token_of(variable: str, host: str) -> str:
    """The token that an environment variable holds; refused where one is needed and none is."""
    if not variable:
        if host not in LOOPBACK:
            raise UsageError(
                f"other machines can reach {host}, and whoever asks could use the workspace",
                hint="Keep a secret in a variable, and name it: --token-from VARIABLE.",
            )
        return ""
    token = os.environ.get(variable, "").strip()
    if len(token) < _LEAST_TOKEN:
        raise UsageError(
            f"the variable {variable} has {len(token)} characters",
            hint=f"A token has {_LEAST_TOKEN} at least, such as: openssl rand -hex 16",
        )
    return token


def knows_token(authorization: str, token: str) -> bool:
    """Whether the header of a request bears the token."""
    kind, _, given = authorization.partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens: who comes before the application is ready waits."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}",
            hint="Name another port with --port; 0 takes a free one.",
        ) from error
    # Its connections inherit this. Else the second part of an answer waits for the client to
    # acknowledge the first, which it does after 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address(listening: socket.socket, host: str) -> str:
    """The web address of a server."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"
