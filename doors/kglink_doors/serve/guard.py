"""The gate of the server: who asks, how much they bring, how long they take.

Without a token only this machine may ask: the names of its loopback are the only hosts that are
answered, so that no page of a site whose name leads here (DNS rebinding) gets in. A page of
another site may change nothing: a browser says where a request comes from. The one exception are
reconciliation services, which table editors call from their own pages.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kglink.text.printable import printable_line
from kglink_doors.listening import LOOPBACK, Limits, knows_token
from kglink_doors.serve.errors import logged_crash

if TYPE_CHECKING:
    from kglink_doors.serve.served import Metrics  # which loads fastapi

T = TypeVar("T")


#: What anybody may have: the page, which asks for the token, and whether the server is alive.
OPEN = frozenset({"/", "/page.css", "/page.js", "/health"})
_TOO_LARGE, _BUSY = 413, 503
#: Refusals that are known before the body has come.
_BEFORE_THE_BODY = (401, 403, _TOO_LARGE, 415, 421)
#: Seconds and bytes that a refused body is read before its sender is answered.
_READING_AWAY, _MOST_READ_AWAY = 2.0, 64 * 2**20
#: Seconds after which whoever waits for a body looks whether the server ends.
_LOOK = 1.0
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: Routes that change nothing, whatever the method.
_READING = ("/link", "/explain", "/nif", "/resolve", "/reconcile")
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Refused(HTTPException):
    """A request that is not answered, with the status and what its sender reads."""

    def __init__(self, status: int, error: str, fix: str) -> None:
        super().__init__(status, error)
        headers = {"retry-after": "1"} if status == _BUSY else None
        self.shape = {"error": error, "fix": fix}
        self.response = JSONResponse(self.shape, status, headers)


class _TooLarge(Refused):
    def __init__(self, most: int) -> None:
        fix = "Send less at once; --body-mb and --upload-mb raise the limits."
        super().__init__(_TOO_LARGE, f"the body is larger than {most / 2**20:g} MB", fix)


class Guard:
    """ASGI middleware around all routes."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        *,
        log: bool,
        is_ending: Callable[[], bool],
    ) -> None:
        """``is_ending``: whether the server was told to end, and waits for no more to come."""
        self._app = app
        self._is_ending = is_ending
        self._limits = limits
        self._metrics = metrics
        self._log = log
        self._at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, method = time.perf_counter(), scope["method"]
        if method == "HEAD":  # the answer to GET; what sends it leaves out the body
            scope = {**scope, "method": "GET"}
        headers = {key.decode("latin-1"): own.decode("latin-1") for key, own in scope["headers"]}
        answer = _Response(send, self._more_headers(scope["path"], headers.get("origin", "")))
        taken = 0  # places
        try:
            refused = self._of_stranger(scope, headers)
            if refused is None:
                taken = int(not _is_open(scope))
                self._at_work += taken
                refused = self._of_too_much(scope, headers)
            if refused is not None:
                raise refused  # noqa: TRY301 - told as all errors are
            streamed = self._limits.is_streamed(scope["path"])
            most = self._limits.bytes_of(scope["path"])
            within = self._limits.seconds
            body = LimitedBody(receive, most, within, self._is_ending, streamed=streamed)
            await self._app(scope, body, answer)
        except ClientDisconnect:  # nobody is left who could be answered
            pass
        except Exception as error:  # noqa: BLE001 - it is told, and in the log
            refused = error if isinstance(error, Refused) else Refused(*logged_crash(error))
            if not answer.status:
                if refused.status_code in _BEFORE_THE_BODY:
                    await _read_away(receive)
                await refused.response(scope, receive, answer)
        finally:
            self._at_work -= taken
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.request(method, route, answer.status, seconds)
            if self._log:
                line = {
                    "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                    "method": method,
                    "path": printable_line(scope["path"]),
                    "status": answer.status,
                    "seconds": round(seconds, 4),
                }
                sys.stderr.write(json.dumps(line) + "\n")

    def _of_stranger(self, scope: Scope, headers: Mapping[str, str]) -> Refused | None:
        """Why this sender is not answered."""
        path, method = scope["path"], scope["method"]
        local = _host_of(f"//{headers.get('host', '')}") in LOOPBACK
        if not self._limits.token and not local:
            message = "this server answers to the names of its own machine only"
            return Refused(421, message, "Ask http://127.0.0.1, or start it with --token-from.")
        token, given = self._limits.token, headers.get("authorization", "")
        if not given and _is_reconciliation(path):  # table editors send no headers
            query = parse_qs(scope["query_string"].decode("latin-1"))
            given = f"Bearer {query.get('token', [''])[0]}"
        if token and not _is_open(scope) and not knows_token(given, token):
            return Refused(401, "the token is missing or wrong", "Authorization: Bearer TOKEN")
        if method not in _SAFE and not _is_reconciliation(path):
            origin = headers.get("origin")
            site = headers.get("sec-fetch-site")  # said by browsers, which no page can change
            here = site == "same-origin" or origin is None or _is_at(origin, headers)
            if not here or site in ("cross-site", "same-site"):
                fix = "Ask from the server's page; a proxy before it hands on the header Host."
                return Refused(403, "a page of another site asks", fix)
        return None

    def _of_too_much(self, scope: Scope, headers: Mapping[str, str]) -> Refused | None:
        """Why this is more than the server does."""
        path = scope["path"]
        reads = scope["method"] in _SAFE or path.startswith(_READING)
        if self._limits.read_only and not reads:
            return Refused(403, "this server changes nothing", "It was started with --read-only.")
        is_packed = headers.get("content-encoding", "identity") != "identity"
        if is_packed and not path.startswith("/kbs/"):
            return Refused(415, "the body is packed", "Send it as it is.")
        most = self._limits.bytes_of(path)
        length = headers.get("content-length", "0")
        if most and length.isdecimal() and int(length[:15]) > most:
            return _TooLarge(most)
        if self._at_work > self._limits.waiting and not _is_open(scope):
            return Refused(_BUSY, f"{self._at_work:,} requests are at work", "Ask again later.")
        return None

    def _more_headers(self, path: str, origin: str) -> dict[str, str]:
        """The headers of every answer; those that let other sites read it, where they may."""
        more = dict(_HEADERS)
        if _is_reconciliation(path):
            here = " ".join(("http://localhost:*", "http://127.0.0.1:*", *self._limits.origins))
            own = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
            more["content-security-policy"] = f"{own}; frame-ancestors {here}"
            if _host_of(origin) in LOOPBACK or origin in self._limits.origins:
                more |= {
                    "access-control-allow-origin": origin,
                    "access-control-allow-methods": "GET, POST, OPTIONS",
                    "access-control-allow-headers": "authorization, content-type",
                    "vary": "origin",
                }
        return more


def _is_at(origin: str, headers: Mapping[str, str]) -> bool:
    """Whether a page is of the host that is asked; the usual port may be left out."""
    page, host = origin.lower(), headers.get("host", "").lower()
    usual = {"https": ":443", "http": ":80"}.get(_parts_of(page).scheme, "")
    return _parts_of(page).netloc.removesuffix(usual) == host.removesuffix(usual)


def _is_reconciliation(path: str) -> bool:
    return path == "/reconcile" or path.startswith("/reconcile/")


def _is_open(scope: Scope) -> bool:
    """Whether anybody is answered, and so takes no place of those who may ask."""
    return scope["method"] == "OPTIONS" or scope["path"] in OPEN


async def _read_away(receive: Receive) -> None:
    """Read what still comes for a moment: who sends sees the answer, not a broken connection."""
    read = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_READING_AWAY):
            while read < _MOST_READ_AWAY:
                message = await receive()
                read += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _host_of(address: str) -> str:
    return _parts_of(address).hostname or ""


def _parts_of(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


async def while_there(receive: Receive, work: Awaitable[T]) -> T:
    """What some work gives; it is cancelled when who asked has gone.

    ``receive`` has given the body already, or gives nothing before it has.
    """

    async def leaves() -> None:  # the body has come: nothing else is said any more
        while (await receive())["type"] != "http.disconnect":
            pass

    doing, leaving = asyncio.ensure_future(work), asyncio.create_task(leaves())
    try:
        await asyncio.wait((doing, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientDisconnect
        return doing.result()
    finally:
        doing.cancel()
        leaving.cancel()


class LimitedBody:
    """What comes, within its limits of bytes and time.

    ``streamed``: the seconds are those between two parts, else those of the whole.
    """

    def __init__(
        self,
        receive: Receive,
        most: int,
        seconds: float,
        is_ending: Callable[[], bool],
        *,
        streamed: bool,
    ) -> None:
        self._receive = receive
        self._most = most
        self._seconds = seconds
        self._is_ending = is_ending
        self._deadline = None if streamed else time.monotonic() + seconds
        self._read = 0
        self._done = False

    async def __call__(self) -> Message:
        """The next message, which may be that the client has gone."""
        if self._done:  # what comes now is that the client has gone
            return await self._receive()
        message = await self._next_part()
        self._read += len(message.get("body", b""))
        if self._most and self._read > self._most:
            raise _TooLarge(self._most)
        self._done = not message.get("more_body", False)
        return message

    async def _next_part(self) -> Message:
        until = self._deadline or time.monotonic() + self._seconds
        while True:
            left = max(0.0, until - time.monotonic())
            try:
                return await asyncio.wait_for(self._receive(), min(left, _LOOK))
            except TimeoutError:
                if self._is_ending():
                    hint = "Send it again when it is back."
                    raise Refused(503, "the server ends", hint) from None
                if left <= _LOOK:
                    late = f"the body did not come within {self._seconds:g} s"
                    raise Refused(408, late, "Send it faster.") from None


class _Response:
    """What goes out, with headers of its own; ``status`` is 0 until it has begun."""

    def __init__(self, send: Send, headers: Mapping[str, str]) -> None:
        self._send = send
        self._headers = headers
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own: list[Any] = list(message.get("headers", []))
            names = {key.lower() for key, _ in own}
            own += [
                (key.encode(), value.encode("latin-1", "replace"))
                for key, value in self._headers.items()
                if key.encode() not in names
            ]
            message = {**message, "headers": own}
        await self._send(message)
