"""One process that works for a reader: jobs come in on standard input, answers go out.

A message is the length of its head, the length of its data, the head as JSON, the data. The
process ends when its input does, so none outlives a reader that is killed.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from typing import Any, BinaryIO

from kglink.errors import KglinkError, SourceError
from kglink_kbs.mediawiki.chunk import ChunkReader
from kglink_kbs.mediawiki.job import Plan
from kglink_kbs.mediawiki.resolve import PartResolver
from kglink_kbs.mediawiki.texts import TextCleaner

_LENGTHS = struct.Struct("<QQ")

Job = dict[str, Any]


def send(stream: BinaryIO, head: Job, data: bytes = b"") -> None:
    """Write one message."""
    packed = json.dumps(head).encode()
    stream.write(_LENGTHS.pack(len(packed), len(data)) + packed)
    stream.write(data)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[Job, bytes] | None:
    """Read one message; None at the end, and for a part of one: its sender was killed."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    head_bytes, data_bytes = _LENGTHS.unpack(lengths)
    head, data = stream.read(head_bytes), stream.read(data_bytes)
    if len(head) < head_bytes or len(data) < data_bytes:
        return None
    return json.loads(head), data


class Worker:
    """Does jobs by one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._reader = ChunkReader(plan)
        self._cleaner = TextCleaner(plan, self._reader.titles)

    def do(self, job: Job, data: bytes) -> Job:
        """Do one job; what is written goes to the plan's folder."""
        try:
            return self._do(job, data)
        except OSError as error:
            raise SourceError(
                f"cannot keep what has been read in {self._plan.folder}: {error.strerror or error}",
                hint="It takes about as much room as the packed dump. The workspace's folder, "
                "or TMPDIR outside of one, says where it lies.",
            ) from error

    def _do(self, job: Job, data: bytes) -> Job:
        if job["do"] == "read":
            return self._reader.read(job["chunk"], data, job["label"], job["offset"], job["bound"])
        if job["do"] == "clean":
            self._cleaner.clean(job["chunk"], job["largest"])
            return {}
        resolver = PartResolver(self._plan, job["chunks"], job["groups"])
        match job["do"]:
            case "ask":
                resolver.ask(job["part"])
            case "answer":
                resolver.answer(job["turn"], job["part"])
            case _:
                resolver.join(job["part"])
        return {}


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the reader's to handle
    first = receive(sys.stdin.buffer)
    if first is None:
        return
    worker = Worker(Plan.from_json(first[0]))
    while message := receive(sys.stdin.buffer):
        try:
            answer = worker.do(*message)
        except KglinkError as error:
            answer = {"error": [error.message, error.hint]}
        try:
            send(sys.stdout.buffer, answer)
        except BrokenPipeError:  # the reader was killed
            os._exit(1)


if __name__ == "__main__":
    main()
