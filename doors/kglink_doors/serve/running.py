"""Running an application: what no client can keep from ending, or from answering others."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds that requests at work have left at least once the server is told to end.
_GRACE = 30


def run_app(app: Any, listening: socket.socket, seconds: float, ending: threading.Event) -> None:
    """Answer on a socket until a signal comes.

    ``seconds``: the longest time for a request; ``ending`` is set once the server is told to end.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        http=_hears(seconds),
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(_GRACE, math.ceil(seconds) + 1),
        h11_max_incomplete_event_size=64 * 1024,
    )
    # The server raises the signal that ended it once more, when all is answered.
    with listening, suppress(KeyboardInterrupt):
        server = _Server(config)
        server.ending = ending
        server.run(sockets=[listening])


def _hears(seconds: float) -> type[H11Protocol]:
    """The protocol that closes a connection whose request does not come within some seconds."""

    class Hears(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self.timeout_keep_alive_task and self._timer:  # it was idle: a request begins
                self._timer.cancel()
                self._timer = None
            super().data_received(data)
            self._wait()

        def _wait(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(seconds, self._close)

        def _close(self) -> None:
            self._timer = None
            is_idle = self.timeout_keep_alive_task is not None  # that is uvicorn's own affair
            if not is_idle and (self.cycle is None or self.cycle.response_complete):
                self.transport.close()

    return Hears


class _Server(uvicorn.Server):
    """A server that waits for what is at work, and for nobody who sends nothing."""

    ending: threading.Event
    """Set once it was told to end."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Hear a hangup too, unless it is ignored, as under nohup."""
        with super().capture_signals(), ExitStack() as after:
            before = signal.getsignal(signal.SIGHUP)
            is_main = threading.current_thread() is threading.main_thread()
            if is_main and before not in (signal.SIG_IGN, None):
                signal.signal(signal.SIGHUP, self.handle_exit)
                after.callback(signal.signal, signal.SIGHUP, before)
            yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; who was let in meanwhile, and is idle, is closed after a second."""
        self.ending.set()
        asyncio.get_running_loop().call_later(1, self._close_idle)
        await super().shutdown(sockets)

    def _close_idle(self) -> None:
        for connection in list(self.server_state.connections):
            connection.shutdown()
