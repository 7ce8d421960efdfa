"""The processes that parse: started as programs of their own, so that no caller's code runs twice.

`multiprocessing` would run the caller's main module again in each process (spawn) or copy a
process that may hold threads and open stores (fork); it sends Python objects as pickles, too.

Jobs come in on standard input, answers go out on standard output. A message is the length of its
head, the length of its data, the head as JSON, the data. A process ends when its input does, so
none outlives a reader that is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from queue import SimpleQueue
from typing import IO, Any, ClassVar, Self

from kglink.errors import KglinkError, SourceError
from kglink_kbs.mediawiki.chunk import ChunkReader
from kglink_kbs.mediawiki.join import PartResolver
from kglink_kbs.mediawiki.plan import Plan, packed_sections, write_sections

_LENGTHS = struct.Struct("<QQ")

Job = dict[str, Any]


def send(stream: IO[bytes], head: Job, data: bytes = b"") -> None:
    """Write one message."""
    packed = json.dumps(head).encode()
    stream.write(_LENGTHS.pack(len(packed), len(data)) + packed)
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[Job, bytes] | None:
    """Read one message; None at the end, and for a part of one: its sender was killed."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    head_bytes, data_bytes = _LENGTHS.unpack(lengths)
    head, data = stream.read(head_bytes), stream.read(data_bytes)
    if len(head) < head_bytes or len(data) < data_bytes:
        return None
    return json.loads(head), data


def done(plan: Plan, reader: ChunkReader, job: Job, data: bytes) -> Job:
    """Do one job and answer; what is written goes to the plan's folder."""
    with keeping(plan):
        if job["do"] == "read":
            write_sections(plan.chunk(job["chunk"]), reader.read(job, data))
            return {"chunk": job["chunk"]}
        resolver = PartResolver(plan, job["chunks"], job["groups"])
        match job["do"]:
            case "ask":
                resolver.ask(job["part"])
            case "answer":
                resolver.answer(job["turn"], job["part"])
            case _:
                resolver.join(job["part"])
    return {}


@dataclass(frozen=True)
class ReadJob:
    """Reads pieces where the plan's folder is not seen, and gives what their files hold."""

    plan: Plan
    threads: ClassVar[int] = 1
    device: ClassVar[str] = "cpu"

    @cached_property
    def _reader(self) -> ChunkReader:
        return ChunkReader(self.plan)

    def load(self) -> None:
        """Nothing is loaded."""

    def do(self, given: tuple[Job, bytes]) -> Job:
        """The answer to a job that reads, with the packed sections."""
        packed = b"".join(packed_sections(self._reader.read(*given)))
        return {"chunk": given[0]["chunk"], "packed": packed}


@contextmanager
def keeping(plan: Plan) -> Iterator[None]:
    """Say where there was no room for what was read."""
    try:
        yield
    except OSError as error:
        raise SourceError(
            f"cannot keep what has been read in {plan.folder}: {error.strerror or error}",
            hint="It takes about as much room as the packed dump. The workspace's folder, "
            "or TMPDIR outside of one, says where it lies.",
        ) from error


def main() -> None:
    """Serve until the input ends."""
    first = receive(sys.stdin.buffer)
    if first is None:
        return
    plan = Plan.from_json(first[0])
    reader = ChunkReader(plan)
    while message := receive(sys.stdin.buffer):
        try:
            answer = done(plan, reader, *message)
        except KglinkError as error:
            answer = {"error": [error.message, error.hint]}
        try:
            send(sys.stdout.buffer, answer)
        except BrokenPipeError:  # the reader was killed
            os._exit(1)


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
        self._here = ChunkReader(plan) if not count else None
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._started: list[subprocess.Popen[bytes]] = []
        # The processes have the mask of the thread that starts them: Ctrl-C is the reader's.
        no_ctrl_c = (signal.SIG_BLOCK, {signal.SIGINT})
        self._threads = ThreadPoolExecutor(
            max(1, count), initializer=signal.pthread_sigmask, initargs=no_ctrl_c
        )

    def do(self, jobs: Iterable[tuple[Job, bytes]]) -> Generator[Job]:
        """Have jobs done; the answers come in their order."""
        waiting: deque[Future[Job]] = deque()
        for job, data in jobs:
            waiting.append(self._submit(job, data))
            if len(waiting) > 2 * max(1, self.count):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _submit(self, job: Job, data: bytes) -> Future[Job]:
        if self._here is not None:
            future: Future[Job] = Future()
            future.set_result(done(self._plan, self._here, job, data))
            return future
        if len(self._started) < self.count:
            self._threads.submit(self._start).result()
        return self._threads.submit(self._do, job, data)

    def _start(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kglink_kbs.mediawiki.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._started.append(process)
        send(_pipe(process.stdin), self._plan.as_json())
        self._idle.put(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes."""
        self._threads.shutdown(cancel_futures=True)
        for process in self._started:
            with contextlib.suppress(OSError):
                _pipe(process.stdin).close()
        for process in self._started:
            process.wait()
            _pipe(process.stdout).close()

    def _do(self, job: Job, data: bytes) -> Job:
        process = self._idle.get()
        try:
            send(_pipe(process.stdin), job, data)
            answer = receive(_pipe(process.stdout))
        except OSError:
            answer = None
        if answer is None:
            code = process.wait()
            self._idle.put(process)  # whoever waits for it fails too, and does not wait for ever
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


if __name__ == "__main__":
    main()
