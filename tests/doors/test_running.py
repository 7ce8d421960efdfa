"""How a server hears its clients and its signals: a small application, run as `kglink serve` is."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import uvicorn

from kglink_doors.serve.running import _Server

_SECONDS = 3
#: `/late` blocks the loop, so that whoever connects meanwhile is let in while the server ends.
_APPLICATION = """
import asyncio, signal, sys, threading, time
from kglink_cli.interrupts import heed_interrupts
from kglink_doors.listening import listen
from kglink_doors.serve.running import run_app

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive(), await send({"type": "lifespan.startup.complete"})
        await receive(), await send({"type": "lifespan.shutdown.complete"})
        return
    print("asked", flush=True)
    if scope["path"] == "/late":
        time.sleep(1)
    if scope["path"] == "/slow":
        await asyncio.sleep(1)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"answered"})

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever started the tests ignores
heed_interrupts()
listening = listen("127.0.0.1", 0)
print(listening.getsockname()[1], flush=True)
run_app(app, listening, int(sys.argv[1]), threading.Event())
assert "_Server" not in repr(signal.getsignal(signal.SIGHUP)), "the handler is put back"
"""


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """The application, which prints its port and each request."""
    process = subprocess.Popen(
        [sys.executable, "-c", _APPLICATION, str(getattr(request, "param", _SECONDS))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


def test_a_server_may_run_beside_the_main_thread() -> None:
    def hear() -> None:
        with _Server(uvicorn.Config("")).capture_signals():
            pass

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hear).result()


def _connect(server: subprocess.Popen[str]) -> socket.socket:
    assert server.stdout
    return socket.create_connection(("127.0.0.1", int(server.stdout.readline())), 30)


def _asked(server: subprocess.Popen[str]) -> None:
    assert server.stdout
    assert server.stdout.readline() == "asked\n"


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def _answer(client: socket.socket) -> bytes:
    """What comes until the application has answered, or the connection is closed."""
    parts = iter(partial(client.recv, 65536), b"")
    read = b""
    while not read.endswith(b"0\r\n\r\n") and (part := next(parts, b"")):
        read += part
    return read


@pytest.mark.slow
def test_a_request_on_a_kept_connection_has_its_own_time(server: subprocess.Popen[str]) -> None:
    with _connect(server) as client:
        client.sendall(_get("/"))
        assert b"answered" in _answer(client)
        time.sleep(_SECONDS - 0.3)
        head, rest = _get("/")[:10], _get("/")[10:]
        client.sendall(head)
        time.sleep(0.6)
        client.sendall(rest)
        assert b"answered" in _answer(client)
        client.sendall(head)  # and nothing more
        began = time.monotonic()
        assert client.recv(65536) == b""
        assert time.monotonic() - began < _SECONDS + 1


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_what_is_at_work_is_answered(server: subprocess.Popen[str], number: signal.Signals) -> None:
    with _connect(server) as client:
        client.sendall(_get("/slow"))
        _asked(server)
        server.send_signal(number)
        assert b" 200 OK" in (answer := _answer(client))
        assert b"answered" in answer
    assert server.wait(10) == 0
    assert server.stderr
    assert server.stderr.read() == ""


@pytest.mark.slow
@pytest.mark.parametrize("server", [30], indirect=True)
def test_who_connects_at_the_end_does_not_keep_the_server(server: subprocess.Popen[str]) -> None:
    with _connect(server) as client:
        client.sendall(_get("/late"))
        _asked(server)
        with socket.create_connection(client.getpeername()):
            server.send_signal(signal.SIGTERM)
            began = time.monotonic()
            server.wait(30)
            assert time.monotonic() - began < 10
