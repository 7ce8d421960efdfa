"""Where a server listens, how much it bears, and the token that it asks for."""

from __future__ import annotations

import hmac
import os
import socket
from collections.abc import Collection
from dataclasses import dataclass
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
        help="Environment variable that holds the token that clients must send; needed if other "
        "machines can connect.",
    ),
]

#: Names of this machine, which no page of another site can have.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: Letters of a token that nobody guesses.
_LEAST_TOKEN = 16
_BACKLOG = 512
#: Seconds after which a client that takes nothing of its answer is cut off.
_UNREAD = 120


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
    strange = "" if token.isascii() else ", some of them not ASCII"
    if strange or len(token) < _LEAST_TOKEN:
        raise UsageError(
            f"the variable {variable} has {len(token)} characters{strange}",
            hint=f"A token has {_LEAST_TOKEN} at least, all ASCII, such as: openssl rand -hex 16",
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
            hint="Name another port (--port 0 takes a free one), or an address of this machine.",
        ) from error
    # Its connections inherit these. Else the second part of an answer waits for the client to
    # acknowledge the first, which it does after 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Else a client that has gone silent holds its answer, and its place, for ever.
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # of Linux alone
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD * 1000)
    return listening


def address(listening: socket.socket, host: str) -> str:
    """The web address of a server."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


#: The route whose body has no end.
_LINES = "/link/lines"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one request may bring and take, how many may wait, and who may ask."""

    body_mb: float = 2.0
    """Of a request; of JSON lines that are streamed: of each line."""
    upload_mb: float = 1000.0
    seconds: float = 60.0
    """For the body to come, and for the answer to be made."""
    waiting: int = 64
    """Requests that are answered or wait, and texts that wait; more are sent away."""
    token: str = ""
    """Whoever asks must know it; empty: only this machine can ask."""
    origins: Collection[str] = ()
    """Sites whose pages may ask the reconciliation service, besides those of this machine."""
    read_only: bool = False

    def bytes_of(self, path: str) -> int:
        """The most bytes of a body; 0: no limit as a whole."""
        if path == _LINES:
            return 0
        return int((self.upload_mb if path.startswith("/kbs/") else self.body_mb) * 2**20)

    def is_streamed(self, path: str) -> bool:
        """Whether a body is worked on while it comes, and may come for long."""
        return path == _LINES or path.startswith("/kbs/")
