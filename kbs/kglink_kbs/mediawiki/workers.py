"""The processes that parse: started as programs of their own, so that no caller's code runs twice.

`multiprocessing` would run the caller's main module again in each process (spawn) or copy a
process that may hold threads and open stores (fork); it sends Python objects as pickles, too.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Self, cast

from kglink.errors import SourceError
from kglink_kbs.mediawiki.job import Plan
from kglink_kbs.mediawiki.worker import Job, Worker, receive, send

_PROGRAM = "kglink_kbs.mediawiki.worker"


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Does jobs in ``count`` processes; with a count of 0 in this one."""

    def __init__(self, plan: Plan, count: int) -> None:
        self._plan = plan
        self.count = count
        self._here = Worker(plan) if not count else None
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._started: list[subprocess.Popen[bytes]] = []
        self._threads = ThreadPoolExecutor(max(1, count))

    def submit(self, job: Job, data: bytes = b"") -> Future[Job]:
        """Have a job done."""
        if self._here is not None:
            done: Future[Job] = Future()
            done.set_result(self._here.do(job, data))
            return done
        if len(self._started) < self.count:
            self._start()
        return self._threads.submit(self._do, job, data)

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown(cancel_futures=True)
        for process in self._started:
            with contextlib.suppress(OSError):
                _pipe(process.stdin).close()
        for process in self._started:
            process.wait()
            _pipe(process.stdout).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self) -> None:
        process = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [sys.executable, "-P", "-m", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._started.append(process)
        send(cast("IO[bytes]", process.stdin), self._plan.as_json())  # type: ignore[arg-type]  # JSON is a job
        self._idle.put(process)

    def _do(self, job: Job, data: bytes) -> Job:
        process = self._idle.get()
        try:
            send(_pipe(process.stdin), job, data)  # type: ignore[arg-type]  # a pipe
            answer = receive(_pipe(process.stdout))  # type: ignore[arg-type]  # a pipe
        except OSError:
            answer = None
        if answer is None:
            code = process.wait()
            raise SourceError(
                f"a process that reads {self._plan.label} has ended with code {code}",
                hint="It may have run out of memory; run again to go on where it stopped.",
            )
        self._idle.put(process)
        if "error" in answer[0]:
            message, hint = answer[0]["error"]
            raise SourceError(message, hint=hint)
        return answer[0]


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - both were asked for when the process was started
    return pipe
