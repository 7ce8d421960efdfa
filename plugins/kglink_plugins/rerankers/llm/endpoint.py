"""Questions to an OpenAI-compatible endpoint: bounded in time, in number and in what they tell.

What an endpoint sends is read by libraries that raise whatever they raise on bytes that nobody
foresaw; so any exception here is a question without an answer, and nothing more.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, responses
from io import BufferedReader, RawIOBase
from ipaddress import ip_address
from threading import Event, Lock, Timer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kglink.errors import UsageError
from kglink.text.printable import printable
from kglink_plugins.plugin import LlmSettings

#: Seconds before a question is asked again, where the endpoint names none; doubled each time.
FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
#: Answers are short: more than this is none.
_MOST_BYTES = 1 << 20
#: With its headers, and with the frames of its chunks.
_MOST_RAW_BYTES = 8 << 20
_MOST_SHOWN = 200
#: More tokens than any question costs: who says so says nothing.
_MOST_TOKENS = 10**9


class Reply(NamedTuple):
    """What a model said, and what it cost."""

    text: str
    read: int
    """Tokens of the question, as the endpoint counts them."""
    written: int


class NoReplyError(Exception):
    """The endpoint gave no answer; the message holds no key."""

    def __init__(self, message: str, *, again: bool = True, after: float | None = None) -> None:
        super().__init__(message)
        self.again = again
        """Whether it may answer when it is asked once more."""
        self.after = after
        """After the number of seconds that it asked for."""


class _Bounded(RawIOBase):
    """So much of a stream and no more, whatever length its reader is made to ask for."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._left = _MOST_RAW_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self._stream.readinto1(buffer)
        self._left -= got
        if self._left < 0:
            raise _TooMuchError
        return got

    def close(self) -> None:
        self._stream.close()
        super().close()


class _TooMuchError(Exception):
    """An answer is longer than any that could be meant."""


class _BoundedResponse(HTTPResponse):
    """An answer of which a bounded part is read."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.fp: BufferedReader = BufferedReader(_Bounded(self.fp))


class Endpoint:
    """One model behind one address."""

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        try:
            url = urlsplit(settings.url)
            self._host, self._port = url.hostname or "", url.port
        except ValueError as error:
            raise _bad_url() from error
        if url.scheme not in ("http", "https") or not self._host or not settings.model:
            raise _bad_url()
        if "@" in url.netloc or url.query or url.fragment:
            raise UsageError(
                "the setting `url` of kglink/llm holds more than an address",
                hint="Put the key into the environment variable that `key_from` names.",
            )
        self._secure = url.scheme == "https"
        self._path = url.path.rstrip("/") + "/chat/completions"
        self.name = f"{url.scheme}://{url.netloc}"
        key = os.environ.get(settings.key_from, "") if settings.key_from else ""
        if not key.isascii() or any(one.isspace() or not one.isprintable() for one in key):
            # The library would name the key in its own error.
            raise UsageError(
                f"the environment variable {settings.key_from} holds no key",
                hint="A key has no spaces, line breaks or letters beyond ASCII.",
            )
        self._key = key
        if self._key and not self._secure and not _is_local(self._host):
            raise UsageError(
                f"the key in {settings.key_from} would go to {self.name} unencrypted",
                hint='Name an address with https, or set key_from = "" to send no key.',
            )
        self._turns = Lock()
        self._next_turn = 0.0

    def ask(self, prompt: str) -> Reply:
        """The model's answer; NoReplyError where there is none after all attempts."""
        pause = FIRST_PAUSE
        for attempt in range(self._settings.retries + 1):
            if self._settings.per_minute:
                with self._turns:
                    turn = max(self._next_turn, time.monotonic())
                    self._next_turn = turn + 60 / self._settings.per_minute
                time.sleep(max(0.0, turn - time.monotonic()))
            try:
                return self._asked(prompt)
            except NoReplyError as error:
                wait = pause if error.after is None else error.after
                is_last = attempt == self._settings.retries
                if is_last or not error.again or wait > self._settings.timeout:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("the last attempt answers or raises")

    def _asked(self, prompt: str) -> Reply:
        body = {
            "model": self._settings.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": self._settings.max_tokens,
        }
        status, after, data = self._posted(json.dumps(body).encode())
        if status != HTTPStatus.OK:
            reason = self._told(data.decode("utf-8", "replace")) or responses.get(status)
            again = status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT)
            again = again or status >= HTTPStatus.INTERNAL_SERVER_ERROR
            message = f"{self.name} answered {status}" + (f": {reason}" if reason else "")
            raise NoReplyError(message, again=again, after=after)
        try:
            return _reply(json.loads(data))
        except Exception as error:  # whatever a reader of JSON raises
            raise NoReplyError(
                f"{self.name} answered something that is no chat completion", again=False
            ) from error

    def _posted(self, body: bytes) -> tuple[int, float | None, bytes]:
        """The status, how long to wait and the content of an answer; in time, or an error."""
        limit = self._settings.timeout
        kind = HTTPSConnection if self._secure else HTTPConnection
        connection = kind(self._host, self._port, timeout=limit)
        connection.response_class = _BoundedResponse
        late, watch, problem = Event(), None, None
        status, after, data = 0, None, b""
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection.connect()
            # The timeout of a socket holds for each part that comes; this one for all of them.
            watch = Timer(limit, _cut, [connection.sock, late])
            watch.daemon = True
            watch.start()
            connection.request("POST", self._path, body, headers)
            response = connection.getresponse()
            data = response.read(_MOST_BYTES + 1)
            status, wait = response.status, response.headers.get("Retry-After", "")
            after = float(wait) if re.fullmatch(r"[0-9]{1,6}", wait) else None
        except Exception as error:  # noqa: BLE001 - whatever a reader of HTTP raises
            problem = error
        finally:
            if watch is not None:
                watch.cancel()
            connection.close()
        if late.is_set() or isinstance(problem, TimeoutError):
            raise NoReplyError(f"{self.name} did not answer in {limit:g} s") from problem
        if isinstance(problem, _TooMuchError) or len(data) > _MOST_BYTES:
            message = f"{self.name} answered more than a megabyte"
            raise NoReplyError(message, again=False) from problem
        if isinstance(problem, OSError) and not isinstance(problem, HTTPException):
            # In the system's words, which quote nobody: it is about the connection itself.
            why = printable(str(problem) or repr(problem), _MOST_SHOWN)
            raise NoReplyError(f"{self.name}: {why}") from problem
        if problem is not None:  # in those of a library, which quotes the answer
            why = self._told(str(problem)) or f"no answer in HTTP ({type(problem).__name__})"
            raise NoReplyError(f"{self.name}: {why}") from problem
        return status, after, data

    def _told(self, text: str) -> str:
        """What an endpoint says, on one line; nothing where a key was sent.

        It may repeat the key, and altered so that no search finds it.
        """
        return "" if self._key else printable(text, _MOST_SHOWN)


def _cut(connected: socket.socket, late: Event) -> None:
    """End whatever waits for a connection."""
    late.set()
    with suppress(OSError):  # it may have ended by itself
        # Not that of an SSL socket, which would pull the session from under its reader.
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _reply(record: Any) -> Reply:
    text = record["choices"][0]["message"]["content"]
    if not isinstance(text, str):
        raise TypeError("no text")
    usage = record.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    read, written = (counts.get(one) for one in ("prompt_tokens", "completion_tokens"))
    return Reply(text, _count(read), _count(written))


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0


def _bad_url() -> UsageError:
    # Not what stands there: it may hold a password.
    return UsageError(
        "kglink/llm: the settings `url` and `model` name no address and model",
        hint='In kglink.toml: [link.reranker_settings] url = "http://localhost:8080/v1" and '
        'model = "NAME".',
    )


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
