"""Swapping two folders."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def exchange(left: Path, right: Path) -> None:
    """Give each of two folders of one file system the other's name.

    On Linux nobody ever finds one of the names missing, whatever happens; where a system or a file
    system cannot do that, it takes three steps.
    """
    if _at_once(left, right):
        return
    spare = left.with_name(f"{left.name}.swap")
    left.rename(spare)
    right.rename(left)
    spare.rename(right)


def _at_once(left: Path, right: Path) -> bool:
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    names = os.fsencode(left), os.fsencode(right)
    done: int = renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    return done == 0
