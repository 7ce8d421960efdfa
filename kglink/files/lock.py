"""Locks between processes; the system frees the lock of a process that dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_PAUSE = 0.05


class LockedError(Exception):
    """Another process holds the lock."""


@contextlib.contextmanager
def file_lock(
    path: Path, busy: Exception | None = None, *, wait: float = 0.0, remove: bool = False
) -> Iterator[None]:
    """Hold the lock of a file, which is made where it is missing; a link is refused.

    ``busy`` is raised where another process holds it for more than ``wait`` seconds, else
    `LockedError`. ``remove`` deletes the file at last.
    """
    descriptor = _acquired(path, time.monotonic() + wait, busy or LockedError(str(path)))
    try:
        yield
    finally:
        if remove:  # while it is held: who waits for it notices that the file has gone
            with contextlib.suppress(OSError):
                path.unlink()
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough: a child may have it open
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file now."""
    if not path.is_file():
        return False
    try:
        with file_lock(path):
            return False
    except LockedError:
        return True


def _acquired(path: Path, deadline: float, busy: Exception) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            if time.monotonic() >= deadline:
                raise busy from error
            time.sleep(_PAUSE)
            continue
        except OSError:
            os.close(descriptor)
            raise
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # removed by the process that held it
