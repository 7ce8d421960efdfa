"""Streams without a size: named pipes and standard input, copied within bounds."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, BinaryIO

from kglink.errors import SourceError
from kglink.sources.compression import MAGIC_BYTES, PARQUET_MAGIC, ZIP_MAGIC, find_compression
from kglink.sources.encoding import check_text, marked_encoding
from kglink.sources.values import SourceLimits

_IN_MEMORY = 16 * 2**20
_PIECE = 2**20


def open_stream(path: Path, mode: int, pipe_seconds: float) -> BinaryIO:
    """Open what is neither a file nor a folder: a pipe that somebody writes to, nothing else."""
    if not stat.S_ISFIFO(mode):
        kind = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a socket"
        raise SourceError(
            f"{path} is {kind}, not a file",
            hint="Name a file or a folder, or pipe the data in: ... | kglink ... -",
        )
    with ThreadPoolExecutor(1) as elsewhere:
        opening = elsewhere.submit(path.open, "rb")  # waits until somebody opens the other end
        try:
            return opening.result(timeout=pipe_seconds)
        except TimeoutError as error:
            raise SourceError(
                f"{path} is a pipe that no program writes to (waited {pipe_seconds:g} seconds)",
                hint="Start the program that writes to it first.",
            ) from error
        finally:
            while not opening.done():  # nobody came: open the other end, so that the wait ends
                with suppress(OSError):
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                time.sleep(0.01)
                opening.add_done_callback(lambda done: done.result().close())


def spooled(stream: BinaryIO, name: str, limits: SourceLimits) -> IO[bytes]:
    """A temporary file with everything that ``stream`` gives."""
    with ExitStack() as undo:
        try:
            spool = undo.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))
            copied = 0
            while data := stream.read(_PIECE):
                if not copied and not data.startswith((ZIP_MAGIC, PARQUET_MAGIC)):
                    # One that no reader would take is refused after its first bytes.
                    compression = find_compression(name, data[:MAGIC_BYTES])
                    if not (compression or limits.encoding or marked_encoding(data)):
                        check_text(name, data)
                copied += len(data)
                if copied > limits.max_spool_bytes:
                    raise SourceError(
                        f"{name} gives more than {limits.max_spool_bytes:,} bytes",
                        hint="If it is what you expect, raise ingest.max_stdin_gb or name a file.",
                    )
                spool.write(data)
        except OSError as error:
            raise SourceError(
                f"cannot keep a copy of {name}: {error.strerror or error}",
                hint="It goes to the folder for temporary files; TMPDIR names another one.",
            ) from error
        undo.pop_all()
    return spool
