"""One process at a time for each run."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from kglink.errors import TrainingError
from kglink.files.lock import file_lock, is_locked

_LOCK = ".lock"
#: Seconds for which a command that only asks may hold the lock of a run.
_A_LOOK = 1.0
#: What the system says of a disk that is full, read-only, closed to us or broken.
_OF_DISKS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other commands from the same run."""
    busy = TrainingError(
        f"{folder}: another process is training here", hint="Wait for it, or stop it."
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / _LOCK, busy, wait=_A_LOOK):
            yield
    except OSError as error:
        if error.errno not in _OF_DISKS:
            raise
        raise TrainingError(
            f"{error.filename or folder}: {error.strerror}",
            hint="Free some space, or mend what is wrong with this file, and go on with --resume.",
        ) from error


def is_busy(folder: Path) -> bool:
    """Whether a process works on this run now."""
    return is_locked(folder / _LOCK)
